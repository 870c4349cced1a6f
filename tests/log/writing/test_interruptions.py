"""Goal: a call that a signal handler's exception leaves is done in full or has done nothing.

Method: interrupt it at the places where the interpreter looks for signals. Behind each the shard
must serve another thread at once, and nobody may find half of anything. `EVERY` is 1 for a
campaign; a batch has a thousand places, and neighbours are alike.
"""

from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest

from storage_core import (
    DirectoryLock,
    InvalidRequestError,
    Transaction,
    UnavailableError,
)
from tests.log.disks import BesideThread
from tests.log.hooked_disk import full
from tests.log.workbench import Workbench, batch_of
from tests.log.writing.interruptions import interrupted_everywhere
from tests.thin import rounds

ROWS = 3
OTHER = 2
EVERY = rounds("SHARDLOG_INTERRUPT_EVERY", few=19, many=1)
BUSY = {"sync": "interval", "sync_interval": timedelta(milliseconds=1)}


def serves_another_thread(bench: Workbench, place: int) -> None:
    """Append and commit beside the test; no wait is long enough to be noticed."""

    def use() -> None:
        bench.stream.append(place, OTHER, b"")
        bench.commit()

    with BesideThread(use):
        pass


def expect_whole(bench: Workbench, places: list[int], rows: int) -> None:
    """Find the rows of the others, and those of an interrupted call together or not at all."""
    bench.reopen()
    assert bench.primaries(ids=OTHER) == places
    counts = Counter(bench.primaries(ids=1))
    assert set(counts.values()) <= {rows}
    assert bench.stream.verify().is_clean


def append_and_commit(bench: Workbench, place: int) -> None:
    bench.stream.append(place, 1, b"x")
    bench.commit()


CALLS = {
    "append": (lambda bench, place: bench.stream.append(place, 1, b"x"), 1, 1),
    "append_batch": (lambda bench, place: bench.append([place] * ROWS), ROWS, EVERY),
    "commit": (append_and_commit, 1, EVERY),
}


@pytest.mark.parametrize("options", [{"block_records": 2, **BUSY}, {}], ids=["sealing", "plain"])
@pytest.mark.parametrize("name", CALLS)
def test_interrupted_call_leaves_no_lock_and_nothing_by_half(make_bench, name, options):
    bench = make_bench(wait_max=timedelta(seconds=1), **options)
    call, rows, every = CALLS[name]
    places = []
    for place in interrupted_everywhere(lambda place: call(bench, place), every):
        serves_another_thread(bench, place)
        places.append(place)
    expect_whole(bench, places, rows)


def test_interrupted_batch_over_shards_is_in_all_of_them_or_in_none(make_bench):
    bench = make_bench(shards=2)
    for _ in interrupted_everywhere(
        lambda place: bench.append([place] * 2, secondary=[2, 3]), 4 * EVERY
    ):
        with BesideThread(lambda: bench.append([-1] * 2, secondary=[4, 5])):
            pass
    bench.reopen()
    assert bench.primaries(ids=2) == bench.primaries(ids=3)
    assert bench.stream.verify().is_clean


def test_interrupted_close_can_be_repeated_and_loses_nothing(bench):
    taken = [-1]
    bench.stream.append(-1, 1, b"x")
    for place in interrupted_everywhere(lambda _: bench.close(), 3 * EVERY):
        bench.reopen()
        assert bench.primaries() == taken
        bench.stream.append(place, 1, b"x")
        taken.append(place)
    assert bench.open().read().num_rows == len(taken)


def test_interrupted_opening_leaves_no_shard_locked(make_bench):
    bench = make_bench(shards=2)
    errors: list[BaseException] = []
    bench.keep([1, 2], secondary=[2, 3])
    bench.close()

    def open_it(_: int) -> None:
        try:
            bench.open()
        except BaseException as error:
            # As an interactive interpreter keeps it.
            errors[:] = [error]
            raise

    for _ in interrupted_everywhere(open_it, 30 * EVERY):
        bench.open()
        bench.close()
    assert bench.primaries() == [1, 2]


def test_interrupted_end_of_an_opening_that_fails_leaves_no_shard_locked(make_bench, disk):
    bench = make_bench(shards=2, disk=disk)
    bench.close()
    failed: list[int] = []

    def refuse(place: int) -> None:
        failed.append(place)
        error = full("open")
        raise error

    def open_it(place: int) -> None:
        # The second one.
        disk.on("before strict", lambda: disk.on("before strict", lambda: refuse(place)))
        with suppress(UnavailableError):
            bench.open()

    for place in interrupted_everywhere(open_it, min(EVERY, 5), lambda: bool(failed)):
        assert failed == [place]
        for number in range(2):
            lock = DirectoryLock.if_free(bench.directory / f"shard-{number:04d}")
            assert lock is not None, place
            lock.release()
        failed.clear()


def test_transaction_whose_call_was_interrupted_holds_each_row_once_or_is_refused(bench):
    begun: list[Transaction] = []
    left: Counter[bool] = Counter()

    def begin() -> None:
        begun.append(bench.stream.transaction(str(len(begun)), 2 * ROWS))
        for primary in range(ROWS):
            begun[-1].append(primary, 1, b"x")

    batch = batch_of(range(ROWS), secondary=OTHER)
    begin()
    for _ in interrupted_everywhere(lambda _: begun[-1].append_batch(batch)):
        try:
            # As a handler that goes on; the number of rows fits if one part is there twice.
            with begun[-1]:
                pass
        except (UnavailableError, InvalidRequestError):
            left[False] += 1
        else:
            left[True] += 1
        begin()
    assert left[True]
    assert left[False]
    for secondary in (1, OTHER):
        assert bench.primaries(ids=secondary) == sorted([*range(ROWS)] * left[True])


def test_call_inside_another_one_of_its_thread_is_refused(bench):
    with bench.shard.guard.append_lock, pytest.raises(UnavailableError, match="signal handlers"):
        bench.stream.append(1, 1, b"")
    bench.stream.append(2, 1, b"")
    bench.commit()
    assert bench.primaries() == [2]
