"""Goal: SHOW has each row once, whatever happens beside it and whenever its process dies.

Method: random steps against a plain list, over two stores of one root; writers and SHOWs that run
at once; and a process that dies at each of its calls to files in turn.
"""

import random
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.dying_files import DyingFiles
from tests.events.remembered.memory import CONTEXTS, Memory
from tests.thin import rounds
from typed_events.event_store import EventStore

HOUR_S = 3600
SEEDS = rounds("SHARDLOG_FAULT_EVENTS", few=3, many=200)


class Plain:
    """What the store is, as a list: the number, the note and the time of each event."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.events: list[tuple[int, str | None, int]] = []
        self.has_note = False

    def store(self, count: int) -> None:
        for _ in range(count):
            note: dict[str, Any] = {"note": f"note {self.memory.count}"} if self.has_note else {}
            now = self.memory.bench.clock.now_ns()
            self.events.append((self.memory.count, note.get("note"), now))
            self.memory.store(**note)

    def define(self) -> None:
        self.memory.bench.define("order", n="int", note="string | null")
        self.has_note = True

    def expire(self) -> None:
        self.memory.bench.clock.advance(HOUR_S // 3)
        self.memory.expire(timedelta(seconds=HOUR_S))
        floor = self.memory.bench.clock.now_ns() - HOUR_S * 10**9
        self.events = [event for event in self.events if event[2] >= floor]

    def of_context(self) -> list[tuple[int, str | None]]:
        return [(n, note) for n, note, _ in self.events if n % CONTEXTS == 1]

    def of_numbers(self) -> list[tuple[int, str | None]]:
        return [(n, note) for n, note, _ in self.events if n in (3, 5) or n > 7]


def check(plain: Plain, by: EventStore | None = None) -> None:
    for name, expected in (("one", plain.of_context()), ("some", plain.of_numbers())):
        rows = plain.memory.rows(name, by)
        assert [(row["n"], row.get("note")) for row in rows] == expected, name


@pytest.mark.parametrize("seed", range(SEEDS))
def test_show_is_the_plain_list_whatever_happened(memory, seed):
    draw = random.Random(seed)
    plain = Plain(memory)
    memory.remember("FOR c-1", "one")
    memory.remember("WHERE n IN (3, 5) OR n > 7", "some")
    steps = {
        "store": lambda: plain.store(draw.randint(1, 4)),
        "show": lambda: check(plain),
        "define": plain.define,
        "expire": plain.expire,
        "seal": memory.seal,
        "reopen": memory.bench.reopen,
        "crash": memory.bench.crash,
        "forget": lambda: memory.do("FORGET one") and memory.remember("FOR c-1", "one"),
    }
    with EventStore.open(memory.root) as other:
        steps["show by another"] = lambda: check(plain, other)
        for _ in range(24):
            steps[draw.choice(["store", "store", "show", "show by another", *steps])]()
        check(plain, other)
    check(plain)


def test_shows_beside_writers_have_each_row_once(memory):
    """One writer numbers its events, so an answer is all numbers up to one that is late enough."""
    memory.remember()
    stop, failures = threading.Event(), []

    def show(store: EventStore) -> None:
        while not stop.is_set():
            before = memory.count
            numbers = memory.numbers(by=store)
            if numbers != [*range(len(numbers))] or len(numbers) < before:
                failures.append((before, numbers))

    with EventStore.open(memory.root) as other:
        stores = [memory.bench.store_of_events, memory.bench.store_of_events, other, other]
        threads = [threading.Thread(target=show, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for turn in range(60):
            memory.store()
            if turn % 20 == 19:
                memory.seal()
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert memory.numbers() == [*range(60)]


class _DeadError(BaseException):
    """The process is gone."""


def die() -> None:
    raise _DeadError


@pytest.mark.parametrize(
    "command",
    ["REMEMBER QUERY order AS new", "SHOW mine", "SHOW many", "FORGET mine"],
)
def test_process_that_dies_at_any_call_leaves_all_rows_once(memory, command, monkeypatch):
    monkeypatch.setattr("typed_events.remembered.showing.MERGED_ROWS_MAX", 6)
    memory.remember()
    memory.remember(name="many")
    memory.store(2)
    memory.numbers()
    memory.store(8 if "many" in command else 1)
    call, is_dead = 0, True
    while is_dead:
        call += 1
        is_dead = False
        files = DyingFiles(memory.root / "~remembered", die)
        try:
            with files.armed(call):
                memory.bench.do(command)
        except _DeadError:
            is_dead = True
        with EventStore.open(memory.root) as other:
            expected = [*range(memory.count)]
            if command.startswith("FORGET"):
                other.execute("REMEMBER QUERY order AS mine")
            assert memory.numbers(by=other) == expected
            assert memory.numbers("many", by=other) == expected
            other.execute("REMEMBER QUERY order AS new")
            assert memory.numbers("new", by=other) == expected
            assert memory.numbers(by=other) == expected
            other.execute("FORGET new")
        memory.store(9 if "many" in command else 1)
    assert call > 1
    memory.do("FORGET mine")
    memory.do("FORGET many")
    drafts = [path for path in memory.files() if path.suffix == ".draft"]
    assert memory.files() == drafts
    assert len(drafts) <= call


def test_disk_that_is_full_keeps_no_frame_and_answers(memory):
    memory.store(3)
    memory.remember()
    memory.numbers()
    memory.store(2)

    def full() -> None:
        raise OSError(28, "No space left on device")

    call, failed = 0, True
    while failed:
        call += 1
        files = DyingFiles(memory.root / "~remembered", full)
        with files.armed(call):
            answer = memory.do("SHOW mine")
            assert [row["n"] for batch in answer.batches for row in batch.to_pylist()] == [
                *range(memory.count)
            ]
        failed = "could not be kept" in answer.message
        if failed:
            assert "No space left on device" in answer.message
        memory.store()
        assert memory.numbers() == [*range(memory.count)]
        memory.store()
    assert call > 3
