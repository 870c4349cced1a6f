"""Goal: damage to any byte of a part is told by its file and addresses, and costs no row.

Method: in small parts of every kind one place after the other is damaged: a bit, a byte, a page of
zeros, the end cut off or something behind it. Those places lie all over the file: pages and their
headers, bloom filters, page index, footer. Where blocks are gone reads tell it that need what is
damaged, and the others find the rows as they were; `verify` tells it always. Where blocks stay
nothing is trimmed or joined for it, and the part is made again of them. So it is, too, where this
process has read the part before.

`make test` tries some places; SHARDLOG_FAULT_COLD says how many times as many, and from 50 on each
byte of all parts has its turn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from storage_core import (
    CorruptionError,
    Environment,
    Part,
    Stream,
    StreamReader,
)
from storage_core.sql import query_batches
from storage_core.testing import ManualClock
from tests.log.parts.parts_lab import NAME, PartsLab
from tests.thin import rounds

TIMES: Final = rounds("SHARDLOG_FAULT_COLD", few=1, many=2)
EACH_FROM: Final = 50
COLUMNS: Final = [
    *("shard", "address", "secondary", "primary", "version", "state", "payload", "headers"),
    *("timestamp", "schema_id", "schema_fingerprint"),
]
_links = count()
Data = bytearray


class Damage(NamedTuple):
    """What is done to a part, and where."""

    part: Part
    place: int
    how: str


def other_bit(data: Data, place: int) -> None:
    data[place] ^= 1 << place % 8


def other_byte(data: Data, place: int) -> None:
    data[place] = 0 if data[place] else 255


def zeros(data: Data, place: int) -> None:
    some = len(data[place : place + 512])
    data[place : place + some] = bytes(some)


def cut(data: Data, place: int) -> None:
    del data[place:]


def longer(data: Data, place: int) -> None:
    data += b"\x01" * (1 + place % 9)


WAYS: dict[str, Callable[[Data, int], None]] = {
    way.__name__: way for way in (other_bit, other_bit, other_byte, zeros, cut, longer)
}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], PartsLab]:
    """Return a lab of so many parts of each kind, with a closed stream; each is made once."""

    @cache
    def made(key_mode: str, times: int) -> PartsLab:
        lab = PartsLab(tmp_path_factory.mktemp(key_mode), key_mode=key_mode, block_records=16)
        rng = np.random.default_rng(71)
        for _ in range(times):
            lab.append(rng, 60)
            lab.stream.seal()
        lab.stream.close()
        return lab

    return made


@pytest.fixture
def lab(sealed: Callable[[str, int], PartsLab], key_mode: str, root: Path) -> Iterator[PartsLab]:
    """A copy with few parts."""
    lab = sealed(key_mode, 2).copied_to(root)
    yield lab
    lab.stream.close()


@pytest.fixture
def joinable(
    sealed: Callable[[str, int], PartsLab], key_mode: str, root: Path
) -> Iterator[PartsLab]:
    """A copy with so many parts that some are joined."""
    lab = sealed(key_mode, 6).copied_to(root)
    yield lab
    lab.stream.close()


def damages(lab: PartsLab, seed: int, some: int) -> Iterator[Damage]:
    """Choose places and ways; each byte of each part, where that was asked for."""
    rng, parts = np.random.default_rng(seed), lab.stream.parts()
    ways = [*WAYS]
    if TIMES >= EACH_FROM:
        for part in parts:
            for place in range(part.entry.size):
                yield Damage(part, place, ways[place % 2])
    for _ in range(some * TIMES):
        part = parts[rng.integers(len(parts))]
        yield Damage(part, int(rng.integers(part.entry.size)), str(rng.choice(ways)))


@contextmanager
def done(damage: Damage) -> Iterator[None]:
    """Damage a part, and let it be as it was behind that."""
    path = damage.part.path
    before = path.read_bytes()
    data = bytearray(before)
    WAYS[damage.how](data, damage.place)
    try:
        path.write_bytes(data)
        if bytes(data) != before:
            yield
    finally:
        path.write_bytes(before)


def answers(lab: PartsLab, reads: Any, shard: int) -> Iterator[Callable[[], Any]]:
    """Yield reads that come to a part of a shard, in each of the ways there are."""
    yield lambda: [
        row for some in reads.tail(shard, 0, columns=COLUMNS) for row in some.to_pylist()
    ]
    yield lambda: reads.read(columns=COLUMNS).to_pylist()
    few: dict[str, Any] = {"keys": [b"device-1", None]} if lab.has_keys else {"ids": [1, 2]}
    yield lambda: reads.read(**few, columns=["primary", "address"]).to_pylist()
    yield lambda: [row for some in reads.scan(columns=["address"]) for row in some.to_pylist()]


def error_of(call: Callable[[], Any], rows: Any) -> CorruptionError | None:
    """Return what a call tells of damage; where it tells nothing find the rows as they were."""
    try:
        result = call()
    except CorruptionError as error:
        return error
    assert rows is not None
    if result != rows:
        pytest.fail("other rows")
    return None


def is_told(call: Callable[[], Any], rows: Any, damage: Damage) -> bool:
    """Find the same rows, or the file and its addresses told; say whether it was told."""
    error, part = error_of(call, rows), damage.part
    if error is None:
        return False
    assert error.path is not None
    assert error.path.name == part.path.name
    assert (error.stream, error.shard) == (NAME, part.shard)
    assert error.start is not None
    assert error.end is not None
    assert error.start <= part.entry.last
    assert part.entry.first < error.end
    return True


def is_needed(damage: Damage) -> bool:
    """Tell whether every read needs what is damaged: the foot, or the file as long as it was.

    Of the rest a read needs what it reads; what it does not need may differ and its rows are right.
    """
    entry = damage.part.entry
    return damage.how in {"cut", "longer"} or damage.place >= entry.size - entry.footer_bytes


def expect_verify_to_tell(lab: PartsLab, damage: Damage) -> None:
    problems = lab.stream.verify().problems
    reported = [one for one in problems if damage.part.path.name in one.message]
    assert reported
    place = damage.part.shard, damage.part.entry.first, damage.part.entry.last + 1
    assert {(one.shard, one.start, one.end) for one in reported} == {place}


def rows_by_shard(lab: PartsLab, reads: Any) -> dict[int, list[Any]]:
    """Return what each of the reads of a shard finds."""
    shards = {part.shard for part in lab.stream.parts()}
    return {shard: [call() for call in answers(lab, reads, shard)] for shard in shards}


def test_reads_of_a_part_that_nobody_has_read_tell_damage_at_any_place(lab: PartsLab) -> None:
    lab.stream.trim()
    rows, chosen = rows_by_shard(lab, lab.stream), list(damages(lab, seed=1, some=4))
    lab.stream.close()
    for damage in chosen:
        # By a name of its own: nobody in this process has heard of these files.
        link = lab.root.with_name(f"{lab.root.name}-{next(_links)}")
        link.symlink_to(lab.root, target_is_directory=True)
        with done(damage), Stream.open(link, NAME) as stream:
            shard = damage.part.shard
            calls = zip(answers(lab, stream, shard), rows[shard], strict=True)
            reported = [is_told(call, right, damage) for call, right in calls]
            # Late and ahead rows are read from their copies; a tail alone needs their part.
            needed = reported[:1] if damage.part.entry.is_out_of_order else reported[:2]
            assert all(needed) or not is_needed(damage), damage
            assert not stream.verify().is_clean
        link.unlink()


def test_reads_of_a_part_that_was_read_before_tell_damage_at_any_place(lab: PartsLab) -> None:
    lab.stream.trim()
    # A reader beside it looks again and again, and its pauses move no clock but its own.
    environment = Environment(ManualClock())
    with StreamReader.open(lab.root, NAME, environment=environment) as reader:
        rows = rows_by_shard(lab, reader)
        assert rows_by_shard(lab, lab.stream) == rows
        for number, damage in enumerate(damages(lab, seed=2, some=6)):
            reads, shard = reader if number % 20 == 0 else lab.stream, damage.part.shard
            with done(damage):
                for call, right in zip(answers(lab, reads, shard), rows[shard], strict=True):
                    is_told(call, right, damage)
        assert rows_by_shard(lab, reader) == rows


def test_steps_tell_damage_at_any_place_and_it_is_rebuilt(joinable: PartsLab) -> None:
    lab = joinable
    rows, seals = lab.rows(), 0
    for damage in damages(lab, seed=3, some=4):
        parts = lab.stream.parts()
        # What lies in the first shard: those before one that is damaged are trimmed and joined.
        if damage.part.shard:
            continue
        # What was damaged before has another name by now.
        part = next(one for one in parts if is_like(one, damage.part))
        now = Damage(part, damage.place % part.entry.size, damage.how)
        with done(now):
            expect_verify_to_tell(lab, now)
            assert is_told(lab.stream.trim, None, now)
            if part in lab.joined_next(part.shard):
                assert is_told(lab.stream.compact, None, now)
            assert lab.stream.parts() == parts
            (step,) = lab.stream.seal(rebuild=True).shards[part.shard].of("rebuild")
            assert step.obsolete == (part.entry,)
            seals += 1
        assert lab.rows_of_parts() == rows
        assert lab.stream.verify().is_clean
    assert seals


def is_like(item: Part, other: Part) -> bool:
    """Tell whether a part has the rows that another had."""
    of_one, of_other = (
        (part.shard, part.entry.first, part.entry.kind, part.entry.is_out_of_order)
        for part in (item, other)
    )
    return of_one == of_other


def test_sql_over_damaged_parts_ends_with_an_error_of_ours_or_the_rows(lab: PartsLab) -> None:
    query = f"SELECT COLUMNS(*)::VARCHAR FROM {NAME} ORDER BY ALL"
    right = rows_of_sql(lab, query)
    for damage in damages(lab, seed=4, some=4):
        with done(damage):
            is_told(lambda: rows_of_sql(lab, query), right, damage)


def rows_of_sql(lab: PartsLab, query: str) -> list[dict[str, Any]]:
    _, batches = query_batches(lab.root, query)
    return [row for batch in batches for row in batch.to_pylist()]
