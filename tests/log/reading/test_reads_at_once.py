"""How many threads read at once, and how much one read may hold.

`reads_max` is 1 or 2 here, and whoever waits for a slot waits for a short time unless told.
"""

import gc
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    ReadRequest,
    Stream,
    StreamReader,
    UnavailableError,
)
from tests.log.disks import STALL_MAX_S, BesideThread
from tests.log.readers import scan_one
from tests.log.workbench import Workbench, column_of

SHORT = timedelta(milliseconds=20)
LONG = timedelta(seconds=STALL_MAX_S)
Make = Callable[..., Workbench]
Reads = Stream | StreamReader


@pytest.fixture
def narrow(make_bench: Make) -> Workbench:
    """A workbench where one thread reads at a time; eight rows in two blocks."""
    bench = make_bench(reads_max=1, wait_max=SHORT, block_records=4)
    bench.keep(range(8))
    return bench


@pytest.fixture(params=["writer", "reader"])
def reads(request: pytest.FixtureRequest, narrow: Workbench) -> Iterator[Reads]:
    if request.param == "writer":
        yield narrow.stream
    else:
        with narrow.read_beside() as reader:
            yield reader


def beside(call: Callable[[], object]) -> None:
    """Let another thread do something to its end."""
    with BesideThread(call):
        pass


def assert_slot_is_free(reads: Reads) -> None:
    beside(lambda: reads.read(1))


def assert_slot_is_taken(reads: Reads) -> None:
    with pytest.raises(UnavailableError, match="reads_max"):
        beside(lambda: reads.read(1))


# --- who waits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda reads: reads.read(),
        lambda reads: list(reads.scan()),
        lambda reads: list(reads.tail(0)),
        lambda reads: reads.for_each(None, None, None, print),
        lambda reads: reads.latest(),
        lambda reads: reads.earliest(),
        lambda reads: reads.available(),
    ],
)
def test_every_read_waits_for_a_slot_and_no_longer_than_told(reads, ask):
    first = reads.scan()
    next(first)
    with pytest.raises(UnavailableError, match="reads_max"):
        beside(lambda: ask(reads))
    first.close()
    beside(lambda: ask(reads))


def test_who_waits_goes_on_once_a_slot_is_free(make_bench):
    bench = make_bench(reads_max=1, wait_max=LONG)
    bench.keep([1])
    first = bench.stream.scan()
    next(first)
    with BesideThread(lambda: bench.stream.read(1)):
        first.close()


def test_iterator_that_is_not_begun_takes_no_slot(reads):
    scan, tail = reads.scan(), reads.tail(0)
    assert_slot_is_free(reads)
    assert column_of(scan, "primary") == column_of(tail, "primary") == [*range(8)]


def end_by_reading_on(scan: Iterator[Any]) -> None:
    assert len(list(scan)) == 1


def end_by_close(scan: Any) -> None:
    scan.close()


def end_by_close_elsewhere(scan: Any) -> None:
    beside(scan.close)


def end_by_failure(scan: Any) -> None:
    with pytest.raises(KeyError):
        scan.throw(KeyError)


@pytest.mark.parametrize(
    "end", [end_by_reading_on, end_by_close, end_by_close_elsewhere, end_by_failure]
)
def test_iterator_gives_its_slot_back_when_it_ends(reads, end):
    scan = reads.scan()
    next(scan)
    assert_slot_is_taken(reads)
    end(scan)
    assert_slot_is_free(reads)


@pytest.mark.parametrize("is_in_circle", [False, True])
def test_iterator_that_is_left_half_way_gives_its_slot_back_when_collected(reads, is_in_circle):
    left: list[Any] = [reads.scan()]
    next(left[0])
    if is_in_circle:
        left.append(left)
    assert_slot_is_taken(reads)
    del left
    gc.collect()
    assert_slot_is_free(reads)


def test_read_that_fails_gives_its_slot_back(narrow):
    narrow.close()
    narrow.call_heads_written(8)
    narrow.damage_block(4)
    narrow.open()
    for _ in range(3):
        with pytest.raises(CorruptionError):
            narrow.stream.read()
    with pytest.raises(CorruptionError):
        beside(narrow.stream.read)


# --- reads inside reads -----------------------------------------------------------------------


def test_reads_inside_a_read_need_no_second_slot(reads):
    seen = []

    def look(record: Any) -> None:
        seen.append(reads.read(1, record.primary, record.primary).num_rows)
        seen.append(len(reads.latest()))
        reads.for_each(1, 3, 3, lambda one: seen.append(one.primary))

    reads.for_each(1, 0, 1, look)
    assert seen == [1, 1, 3] * 2
    for batch in reads.scan():
        assert next(reads.tail(0)).num_rows == batch.num_rows
    assert_slot_is_free(reads)


def test_threads_that_all_read_inside_a_read_do_not_wait_for_each_other(make_bench):
    bench = make_bench(reads_max=2, wait_max=LONG)
    bench.keep([1])
    meeting = threading.Barrier(2, timeout=STALL_MAX_S)

    def look(_: Any) -> None:
        meeting.wait()
        assert bench.stream.read().num_rows == 1
        meeting.wait()

    with BesideThread(lambda: bench.stream.for_each(None, None, None, look)):
        bench.stream.for_each(None, None, None, look)


def test_thread_that_leaves_very_many_iterators_open_is_told(make_bench):
    bench = make_bench(reads_max=2, wait_max=SHORT)
    bench.keep([1])
    left = [bench.stream.scan() for _ in range(1001)]
    for scan in left[:1000]:
        next(scan)
    with pytest.raises(InvalidRequestError, match="this thread has 1000 reads of the stream"):
        next(left[1000])
    beside(bench.stream.read)
    left[0].close()
    assert bench.stream.read().num_rows == 1


# --- what an answer may hold ------------------------------------------------------------------


@pytest.fixture
def large(make_bench: Make) -> Workbench:
    """A workbench whose reads may hold less than its rows: 40 of 1,000 bytes in two shards."""
    bench = make_bench(shards=2, read_bytes_max=25_000, block_records=4)
    bench.keep(range(20), secondary=1, payload=b"x" * 1000)
    bench.keep(range(20), secondary=2, payload=b"x" * 1000)
    return bench


@pytest.mark.parametrize(
    "ask",
    [
        lambda reads: reads.read(),
        lambda reads: reads.read([1, 2]),
        lambda reads: reads.read(limit=15),
        lambda reads: reads.read(latest_by="primary"),
        lambda reads: reads.read([1, 2], limit=15, latest_by="primary"),
        lambda reads: reads.available(None, 0, 20),
    ],
)
def test_read_that_would_hold_too_much_is_refused_by_the_options_name(large, ask):
    for reads in (large.stream, large.read_beside()):
        with pytest.raises(InvalidRequestError, match="read_bytes_max, 25000 bytes"):
            ask(reads)


def test_one_shard_is_stopped_before_it_holds_more(make_bench):
    bench = make_bench(read_bytes_max=10_000, block_records=4)
    bench.keep(range(400), payload=b"x" * 1000)
    bench.close()
    bench.call_heads_written(400)
    bench.damage_block(390)
    bench.open()
    with pytest.raises(InvalidRequestError, match="read_bytes_max"):
        bench.stream.read()


def test_newest_of_too_many_ids_is_refused(make_bench):
    bench = make_bench(read_bytes_max=10_000, block_records=4)
    bench.keep(range(20), secondary=[*range(20)], payload=b"x" * 1000)
    assert len(bench.stream.latest([1, 2, 3])) == 3
    with pytest.raises(InvalidRequestError, match="read_bytes_max"):
        bench.stream.latest()


def test_what_is_small_enough_is_read(large):
    assert large.stream.read(1).num_rows == 20
    assert large.stream.read(limit=10).num_rows == 20
    assert large.stream.read(columns=["primary"]).num_rows == 40
    assert large.stream.read(latest_by="key").num_rows == 2
    assert sum(batch.num_rows for batch in large.stream.scan()) == 40
    seen = []
    large.stream.for_each(None, None, None, lambda record: seen.append(record.primary))
    assert len(seen) == 40


def test_request_to_one_shard_brings_its_own_bound(large):
    request = ReadRequest(1, order="primary", bytes_max=5000)
    with pytest.raises(InvalidRequestError, match="5000 bytes"):
        list(scan_one(large.stream, request))
    assert sum(rows.num_rows for rows in scan_one(large.stream, ReadRequest(1))) == 20


# --- options that change ----------------------------------------------------------------------


def test_altered_bounds_count_at_once_and_for_readers_from_their_refresh_on(narrow):
    with narrow.read_beside() as reader:
        for reads in (narrow.stream, reader):
            scan = reads.scan()
            next(scan)
            assert_slot_is_taken(reads)
            narrow.stream.alter(reads_max=2, read_bytes_max=10)
            if reads is reader:
                reader.refresh()
            with pytest.raises(InvalidRequestError, match="read_bytes_max"):
                beside(partial(reads.read, 1))
            scan.close()
            narrow.stream.alter(reads_max=1, read_bytes_max=10**6)
            if reads is reader:
                reader.refresh()
            assert_slot_is_free(reads)


@pytest.mark.parametrize(
    "read",
    [
        lambda reads: reads.read(),
        lambda reads: reads.latest(),
        lambda reads: list(reads.tail(0)),
        lambda reads: list(reads.scan()),
    ],
    ids=["read", "latest", "tail", "scan"],
)
def test_read_leaves_nothing_to_be_collected(narrow, read):
    # A writer's threads have snapshots, too.
    narrow.close()
    with narrow.read_beside() as reader:
        read(reader)
        gc.collect()
        gc.disable()
        try:
            before = snapshots()
            read(reader)
            assert snapshots() == before
        finally:
            gc.enable()


def snapshots() -> int:
    return sum(type(each).__name__ == "ShardSnapshot" for each in gc.get_objects())
