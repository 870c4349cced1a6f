"""Goal: what SQL and Spark's own reader see of a stream shows a transaction whole or not at all.

Method: transactions land in some of their shards only; or in all of them, while a snapshot is
taken, at each place between two of its looks.
"""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

import pytest
from typing_extensions import override

from storage_core import CorruptionError, StreamReader, TransactionId
from storage_core.platform.clock import SystemClock
from storage_core.read.shard_reader import FollowedShard
from storage_core.sql import query_batches
from storage_core.sql.stream_snapshot import snapshot_of
from storage_core.transactions.finish import finish
from storage_core.transactions.manifest import Staging, staged_transactions
from tests.log.disks import BesideThread
from tests.log.on_disk import flip_bit, manifest_of
from tests.log.workbench import Workbench, batch_of, publish
from tests.thin import covering

SHARDS = 4
EVERY_SHARD = range(SHARDS)
# Shards are listed, looked at, their ends read twice, and looked at again.
LISTED, LOOKED_AT, LOWER, UPPER, AGAIN = range(0, 5 * SHARDS, SHARDS)
LOOKS_MAX = AGAIN + SHARDS
# Where a transaction lands in two shards, and where in the others.
PLACES = [
    *((LISTED, place) for place in range(LOWER, AGAIN + 2)),
    *((LOOKED_AT + 2, place) for place in range(LOWER + 1, AGAIN, 2)),
    *((LOWER + 1, place) for place in range(LOWER + 2, AGAIN, 2)),
    *((UPPER + 1, place) for place in (UPPER + 2, UPPER + 3, AGAIN + 1)),
]
# More than a shard remembers.
MANY = 20


@pytest.fixture
def bench(make_bench):
    return make_bench(shards=SHARDS, block_records=4)


def seen(bench: Workbench) -> list[tuple[int, int]]:
    """Return what SQL shows, as (primary, shard)."""
    query = f'SELECT "primary" AS p, shard FROM "{bench.name}" ORDER BY ALL'
    _, batches = query_batches(bench.root, query)
    return [(row["p"], row["shard"]) for batch in batches for row in batch.to_pylist()]


def in_every_shard(primary: int) -> list[tuple[int, int]]:
    return [(primary, shard) for shard in EVERY_SHARD]


def keep_in_every_shard(bench: Workbench, primary: int, shards=EVERY_SHARD) -> None:
    bench.keep([primary] * len(shards), secondary=list(shards))


def land_in_some(bench: Workbench, primary: int, *, numbered: bool, shards=(0, 1)) -> None:
    """Let a transaction over all shards land in those that are open alone."""
    bench.close()
    transaction = TransactionId("app", primary) if numbered else TransactionId(f"t{primary}")
    publish(bench, transaction, [primary] * SHARDS, EVERY_SHARD)
    bench.open(shards=shards)


@covering(numbered=[True, False], then=["hot", "sealed", "trimmed"])
def test_transaction_that_some_shards_lack_is_not_shown(bench, then, numbered):
    keep_in_every_shard(bench, 1)
    land_in_some(bench, 2, numbered=numbered)
    keep_in_every_shard(bench, 3, (0, 1))
    if then != "hot":
        bench.stream.seal()
    if then == "trimmed":
        bench.stream.trim()
    assert seen(bench) == [*in_every_shard(1), (3, 0), (3, 1)]
    bench.reopen()
    assert seen(bench) == [*in_every_shard(1), *in_every_shard(2), (3, 0), (3, 1)]


def test_transaction_of_one_shard_is_shown_beside_one_that_is_not(bench):
    land_in_some(bench, 1, numbered=True)
    publish(bench, TransactionId("other", 1), [2, 2], [0, 0])
    bench.stream.finish_transactions()
    assert seen(bench) == [(2, 0), (2, 0)]


def test_transaction_given_up_by_half_is_shown_as_far_as_it_landed(bench):
    land_in_some(bench, 1, numbered=True)
    bench.reopen(give_up_transactions=[TransactionId("app", 1).name])
    assert seen(bench) == [(1, 0), (1, 1)]


def test_manifest_that_is_damaged_is_told(bench):
    land_in_some(bench, 1, numbered=True)
    flip_bit(manifest_of(bench.staging, TransactionId("app", 1).name), 30)
    with pytest.raises(CorruptionError, match="manifest"):
        seen(bench)


# --- while a snapshot is taken ------------------------------------------------------------------


class ReaderBesideWriter(StreamReader):
    """A reader that lets something happen before each look at a shard's end or view."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    @override
    def committed(self) -> dict[int, int]:
        return {n: self.shard(n).committed() for n in EVERY_SHARD}

    @override
    def shard(self, shard: int) -> FollowedShard:
        self.meanwhile()
        return super().shard(shard)


def primaries_beside(bench: Workbench, meanwhile: Callable[[], None]) -> list[int]:
    """Return the primaries of a snapshot that is taken while something goes on."""
    with ReaderBesideWriter.open(bench.root, bench.name) as reader:
        reader.meanwhile = meanwhile
        moment = snapshot_of(reader)
    gaps = [(n, gap) for n, parts in moment.shards.items() for gap in parts.gaps]
    hidden = {(n, at) for n, gap in gaps for at in range(gap.start, gap.end)}
    rows = [row for _, table in moment.hot for row in table.to_pylist()]
    return sorted(row["primary"] for row in rows if (row["shard"], row["address"]) not in hidden)


def land(bench: Workbench, number: int, *, numbered: bool) -> None:
    """Let a transaction land in all shards, one after the other."""
    if numbered:
        publish(bench, TransactionId("app", number), [number] * SHARDS, EVERY_SHARD)
        bench.stream.finish_transactions()
    else:
        with bench.stream.transaction(f"t{number}", SHARDS) as rows:
            rows.append_batch(batch_of([number] * SHARDS, secondary=list(EVERY_SHARD)))


def land_staged(bench: Workbench, shards: range) -> None:
    """Let what is published land in some shards that are open."""
    staging, opened = Staging(bench.staging, SystemClock()), bench.shards()
    for manifest in list(staged_transactions(staging)):
        finish(staging, manifest, {n: opened[n] for n in shards})


def once_at(place: int, act: Callable[[], None]) -> Callable[[], None]:
    """Return what acts when it is called for the so-many-th time."""
    calls = count()
    return lambda: act() if next(calls) == place else None


def in_two_steps(
    bench: Workbench, number: int, first: int, second: int, others: Iterable[int] = ()
) -> Callable[[], None]:
    """Return what lets a transaction land in two shards at one call, in the others at a later one.

    Other transactions land behind it.
    """
    calls = count()

    def act() -> None:
        place = next(calls)
        if place == first:
            publish(bench, TransactionId("app", number), [number] * SHARDS, EVERY_SHARD)
            land_staged(bench, range(2))
        if place == second:
            land_staged(bench, range(2, SHARDS))
            for other in others:
                land(bench, other, numbered=True)

    return act


@pytest.mark.parametrize(("numbered", "step"), [(True, 1), (False, 3)])
def test_transaction_that_lands_between_any_two_looks_is_shown_whole_or_not(bench, numbered, step):
    land(bench, 0, numbered=numbered)
    expected = [0] * SHARDS
    for place in range(0, LOOKS_MAX, step):
        number = place + 1
        act = once_at(place, partial(land, bench, number, numbered=numbered))
        primaries = primaries_beside(bench, act)
        assert primaries in (expected, [*expected, *[number] * SHARDS])
        land(bench, number, numbered=numbered)
        expected += [number] * SHARDS


def test_transaction_is_whole_or_not_there_whenever_its_shards_take_it(bench):
    expected: list[int] = []
    for number, (first, second) in enumerate(PLACES):
        act = in_two_steps(bench, number, first, second)
        primaries = primaries_beside(bench, act)
        assert primaries in (expected, sorted([*expected, *[number] * SHARDS]))
        land(bench, number, numbered=True)
        expected = sorted([*expected, *[number] * SHARDS])


@pytest.mark.parametrize("place", [LOWER + 1, UPPER + 1, AGAIN])
def test_more_transactions_than_a_shard_remembers_are_each_whole_or_not_there(bench, place):
    act = in_two_steps(bench, 0, LISTED, place, others=range(1, MANY))
    primaries = primaries_beside(bench, act)
    assert primaries == sorted([*set(primaries)] * SHARDS)


def test_transaction_that_shards_forget_before_they_are_asked_is_whole_or_not_there(bench):
    def act() -> None:
        land(bench, 0, numbered=True)
        for number in range(1, MANY):
            publish(bench, TransactionId("app", number), [number] * 3, range(1, SHARDS))
            bench.stream.finish_transactions()

    primaries = primaries_beside(bench, once_at(UPPER + 1, act))
    assert primaries.count(0) in (0, SHARDS)


@pytest.mark.parametrize("numbered", [True, False])
def test_transactions_that_land_at_every_look_are_each_whole_or_not_there(bench, numbered):
    numbers = count(1)
    primaries = primaries_beside(bench, lambda: land(bench, next(numbers), numbered=numbered))
    assert primaries == sorted([*set(primaries)] * SHARDS)


def test_snapshot_beside_a_busy_writer_shows_each_transaction_whole(bench):
    is_over = threading.Event()

    def write() -> None:
        for number in range(20):
            land(bench, number, numbered=number % 2 == 0)
        is_over.set()

    with BesideThread(write):
        while not is_over.is_set():
            primaries = primaries_beside(bench, lambda: None)
            assert primaries == sorted([*set(primaries)] * SHARDS)
