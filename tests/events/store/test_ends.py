"""The ends of a store: closed, forked, owned by another, full, on a disk that is full."""

import os
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.events.store.bench import StoreBench, rows_of, stored
from tests.waiting import await_that
from typed_events.answer import Status
from typed_events.event_store import EventStore
from typed_events.language.parse import parse

EVENT = stored("order", "ann", amount=1)


def test_closed_store_says_so_and_may_be_closed_again(bench):
    bench.must("order", "ann", amount=1)
    store = bench.store_of_events
    store.close()
    store.close()
    for text in (EVENT, "PING", "LIST TYPES", "FLUSH", 'DEFINE a FIELDS { "b": "int" }'):
        answer = store.execute(text)
        assert (answer.status, answer.message) == (
            Status.BUSY,
            "the store of events is closed",
        )


def test_other_owner_is_named_and_nothing_is_stored(bench):
    bench.must("order", "ann", amount=1)
    with EventStore.open(bench.root) as other:
        for text in (EVENT, 'DEFINE a FIELDS { "b": "int" }'):
            answer = other.execute(text)
            assert answer.status is Status.BUSY
            assert f"process {os.getpid()}" in answer.message
        bench.close()
        assert other.execute(EVENT).status is Status.OK
    assert len(bench.events("order")) == 2


def test_reading_types_takes_no_lock(bench):
    bench.close()
    with EventStore.open(bench.root) as first, EventStore.open(bench.root) as second:
        assert first.execute("LIST TYPES").status is Status.OK
        assert second.execute(EVENT).status is Status.OK


def test_fork_leaves_the_store_to_its_parent(bench):
    bench.must("order", "ann", amount=1)
    assert len(rows_of(bench.do("QUERY order"))) == 1
    store = bench.store_of_events
    child = os.fork()
    if child == 0:
        answer = store.execute(EVENT)
        store.close()
        is_refused = answer.status is Status.BAD_REQUEST and "another process" in answer.message
        os._exit(0 if is_refused else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    bench.must("order", "ann", "EXPECT 1", amount=2)


class HeldWriter:
    """Holds the writer's thread inside a call, so that what comes waits."""

    def __init__(self, bench: StoreBench) -> None:
        self._held, self._free = threading.Event(), threading.Event()
        writer = bench.store_of_events._writer
        self._thread = threading.Thread(target=lambda: writer.call(lambda _: self._hold()))

    def _hold(self) -> None:
        self._held.set()
        assert self._free.wait(300)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._held.wait(300)

    def __exit__(self, *_: object) -> None:
        self._free.set()
        self._thread.join()


def test_full_queue_is_busy_and_what_was_refused_was_not_stored(make_bench):
    bench = make_bench(queue_events_max=2)
    bench.define("order", amount="int")
    answers = []
    waiting = [threading.Thread(target=lambda: answers.append(bench.do(EVENT))) for _ in range(2)]
    with HeldWriter(bench):
        for thread in waiting:
            thread.start()
        await_that(lambda: bench.store_of_events._writer._events == 2, "events that wait")
        answer = bench.do(EVENT)
        assert (answer.status, "nothing was stored" in answer.message) == (Status.BUSY, True)
    for thread in waiting:
        thread.join()
    assert [answer.status for answer in answers] == [Status.OK, Status.OK]
    assert len(bench.events("order")) == 2


def test_command_that_waited_too_long_is_busy_and_is_not_stored(make_bench):
    bench = make_bench()
    bench.define("order", amount="int")
    writer = bench.store_of_events._writer
    with HeldWriter(bench):
        writer._options = replace(writer._options, wait_max=timedelta(milliseconds=200))
        answer = bench.do(EVENT)
        assert (answer.status, "nothing was stored" in answer.message) == (Status.BUSY, True)
    assert bench.events("order") == []


def test_events_begun_together_are_durable_once_they_have_ended(bench):
    ended = threading.Event()
    commands = [parse(stored("order", "ann", amount=number)) for number in (1, 2)]
    wrong = parse(stored("order", "ann", amount="x"))
    first, second, refused = bench.store_of_events.store_soon([*commands, wrong], ended.set)
    assert "amount" in bench.store_of_events.answer_soon(refused).message
    assert ended.wait(300)
    answers = [bench.store_of_events.answer_soon(begun) for begun in (first, second)]
    assert [answer.message for answer in answers] == ["stored at 0:0", "stored at 0:1"]
    bench.crash()
    assert [fields["amount"] for _, _, fields in bench.events("order")] == [1, 2]


def test_event_begun_that_waited_too_long_is_busy_and_is_not_stored(make_bench):
    bench = make_bench()
    bench.define("order", amount="int")
    store = bench.store_of_events
    ended = []
    with HeldWriter(bench):
        (begun,) = store.store_soon([parse(EVENT)], lambda: ended.append(1))
        assert store.answer_soon(begun, 0.0) is None
        answer = store.answer_soon(begun, store._writer.wait_max_s)
        assert (answer.status, "nothing was stored" in answer.message) == (Status.BUSY, True)
    bench.must("order", "ann", amount=2)
    assert ([fields["amount"] for _, _, fields in bench.events("order")], ended) == ([2], [])


def test_event_begun_in_a_closed_store_or_a_full_one_is_refused(make_bench):
    bench = make_bench(queue_events_max=1)
    bench.define("order", amount="int")
    store = bench.store_of_events
    with HeldWriter(bench):
        (begun,) = store.store_soon([parse(EVENT)], lambda: None)
        (refused,) = store.store_soon([parse(EVENT)], lambda: None)
        assert store.answer_soon(refused).status is Status.BUSY
    store.close()
    assert store.answer_soon(begun).status is Status.OK
    (refused,) = store.store_soon([parse(EVENT)], lambda: None)
    assert store.answer_soon(refused).message == "the store of events is closed"


def test_command_on_a_disk_that_hangs_is_told_that_its_outcome_is_open(bench, monkeypatch):
    bench.must("order", "ann", amount=0)
    writer = bench.store_of_events._writer
    is_hanging, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        is_hanging.set()
        assert goes_on.wait(60)

    def submit(item, submitted=writer._submit) -> None:
        submitted(item)
        assert is_hanging.wait(300)

    with monkeypatch.context() as patched:
        patched.setattr(type(bench.disk), "count", lambda _: hang())
        patched.setattr(writer, "_submit", submit)
        writer._options = replace(writer._options, wait_max=timedelta(milliseconds=200))
        try:
            answer = bench.do(stored("order", "ann", 'IDEMPOTENCY "a"', amount=1))
        finally:
            goes_on.set()
    assert answer.status is Status.INTERNAL_ERROR
    assert (
        "it is not known whether it was stored, as storing took more than 0.2 s" in answer.message
    )
    writer._options = replace(writer._options, wait_max=timedelta(minutes=5))
    bench.must("order", "ann", 'IDEMPOTENCY "a"', amount=1)
    assert [fields["amount"] for _, _, fields in bench.events("order")] == [0, 1]


def test_command_that_goes_in_the_moment_before_a_group_leaves_the_writer_at_work(
    bench, monkeypatch
):
    monkeypatch.setattr("typed_events.store.writer._MOMENT_S", 1.0)
    writer = bench.store_of_events._writer
    options = writer._options
    answers = []
    leaving = threading.Thread(target=lambda: answers.append(bench.do(EVENT)))
    with HeldWriter(bench):
        writer._options = replace(options, wait_max=timedelta(milliseconds=500))
        leaving.start()
        # On a machine that is busy it may have waited in vain before anybody looks.
        await_that(lambda: writer._events == 1 or bool(answers), "an event that waits")
    leaving.join()
    await_that(lambda: writer._wake_at == 1, "the end of the moment")
    writer._options = options
    assert bench.do(EVENT).status is Status.OK
    assert len(bench.events("order")) == 2 - (answers[0].status is Status.BUSY)


def test_close_stores_what_waits(bench):
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(bench.do(EVENT)))
    closing = threading.Thread(target=bench.close)
    with HeldWriter(bench):
        waiting.start()
        await_that(lambda: bench.store_of_events._writer._events == 1, "events that wait")
        closing.start()
    waiting.join()
    closing.join()
    assert [answer.status for answer in answers] == [Status.OK]
    assert len(bench.events("order")) == 1


@pytest.mark.parametrize("call", range(1, 5))
def test_failed_write_is_told_and_the_store_goes_on_behind_it(bench, call, monkeypatch):
    """A full disk at one call of a commit: the answer leaves open what is stored, a retry tells."""
    bench.must("order", "ann", amount=0)
    text = stored("order", "ann", f'IDEMPOTENCY "{call}"', amount=1)
    failing = bench.disk.calls + call

    def count() -> None:
        bench.disk.calls += 1
        if bench.disk.calls == failing:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(bench.disk), "count", lambda _: count())
    answer = bench.do(text)
    if answer.status is not Status.OK:
        assert answer.status is Status.INTERNAL_ERROR
        assert "it is not known whether it was stored" in answer.message
        assert "No space left" in answer.message
    assert bench.do(text).status is Status.OK
    bench.must("order", "ann", "EXPECT 2", amount=2)
    assert [fields["amount"] for _, _, fields in bench.events("order")] == [0, 1, 2]
