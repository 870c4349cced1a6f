"""What expires gives its space back: segments at once, RocksDB's files behind."""

import os
from typing import Any

import pytest

from storage_core import StreamReader
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.expiry.shelf import NOW, Shelf, expect_rows
from tests.log.on_disk import flip_bit
from tests.log.workbench import Workbench, column_of
from tests.snapshots import bytes_of

ROWS = 4


@pytest.fixture
def disk() -> FaultyDisk:
    """A disk on which each batch of large rows fills a segment."""
    return FaultyDisk(apart_bytes_min=1000, segment_bytes=1000)


@pytest.fixture
def shelf(make_bench, disk) -> Shelf:
    """A shelf on this disk."""
    return Shelf(make_bench, disk.environment(ManualClock(NOW * 10**9)))


def put_large(shelf: Shelf, hours: float, **columns: Any) -> list[int]:
    """Keep some rows in a segment of their own."""
    return shelf.put(hours, ROWS, payload=b"x" * 1000, **columns)


def test_segments_whose_blocks_are_all_gone_are_unlinked(shelf):
    for hours in (-9, -8, -7):
        put_large(shelf, hours)
    remaining = put_large(shelf, -1)
    assert shelf.expire(dry_run=True).segments == 3
    assert shelf.bench.segments() == [1, 2, 3, 4]
    assert shelf.expire().segments == 3
    assert shelf.bench.segments() == [4]
    for _ in range(2):
        shelf.expect(remaining)
        remaining += put_large(shelf, -1)
        shelf.bench.reopen()
    assert shelf.bench.segments() == [4, 5, 6]
    shelf.expire(hours=20)
    assert shelf.bench.segments() == [6]
    shelf.expect([])


def test_segment_with_a_block_that_stays_stays(shelf):
    remaining = shelf.put(3, secondary=9)
    put_large(shelf, -9)
    remaining += put_large(shelf, -1)
    put_large(shelf, -8, secondary=7)
    put_large(shelf, -8, secondary=8)
    assert shelf.expire().segments == 2
    assert shelf.bench.segments() == [2, 4]
    shelf.bench.reopen()
    shelf.expect(remaining)
    assert shelf.expire(hours=9).segments == 1
    assert shelf.bench.segments() == [4]
    shelf.bench.reopen()
    shelf.expect([])


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_segments_that_a_crash_has_left_are_cleared_away(shelf, disk, call):
    for hours in (-9, -8, -7):
        put_large(shelf, hours)
    remaining = put_large(shelf, -1)
    disk.crash_at = disk.calls + call
    with pytest.raises(SimulatedCrash):
        shelf.expire()
    disk.crash_at = None
    assert shelf.bench.segments() == [1, 2, 3, 4]
    shelf.bench.crash()
    shelf.bench.open()
    shelf.expire()
    assert shelf.bench.segments() == [4]
    shelf.expect(remaining)


def test_segments_stay_for_the_scan_that_shows_its_moment(shelf):
    rows = [*put_large(shelf, -9), *put_large(shelf, -8), *put_large(shelf, -1)]
    scan = shelf.stream.scan()
    seen = column_of([next(scan)], "primary")
    shelf.expire()
    assert shelf.bench.segments() == [1, 2, 3]
    seen += column_of(scan, "primary")
    assert seen == rows
    shelf.put(-1)
    assert shelf.bench.segments() == [3]
    assert shelf.stream.lost_ranges() == {0: []}


def test_reader_whose_segment_is_gone_goes_on_by_the_floor(shelf):
    rows = [row for hours in range(-30, -10) for row in put_large(shelf, hours)]
    remaining = put_large(shelf, -1)
    with StreamReader.open(shelf.bench.root, shelf.bench.name) as reader:
        scan = reader.scan()
        seen = column_of([next(scan)], "primary")
        shelf.expire()
        assert shelf.bench.segments() == [21]
        seen += column_of(scan, "primary")
        assert seen[-ROWS:] == remaining
        assert seen[:-ROWS] == rows[: len(seen) - ROWS]
        assert len(seen) < len(rows)
        expect_rows(reader, remaining)


def stored_small(make_bench, hours: range) -> tuple[Workbench, Shelf, list[int]]:
    """Return a shelf whose old blocks lie in files of RocksDB's, some megabytes."""
    shelf = Shelf(make_bench)
    for hour in hours:
        shelf.put(hour, 50, payload=os.urandom(10_000))
    shelf.bench.flush()
    remaining = shelf.put(-1)
    return shelf.bench, shelf, remaining


def bytes_in(bench: Workbench) -> int:
    return bytes_of(bench.database.glob("*.sst"))


def test_files_of_small_blocks_are_given_back_behind(make_bench):
    bench, shelf, remaining = stored_small(make_bench, range(-30, -6))
    assert bytes_in(bench) > 10**7
    shelf.expire()
    bench.settle()
    assert bytes_in(bench) < 10**6
    shelf.expect(remaining)
    bench.reopen()
    shelf.expect(remaining)


def test_damaged_file_of_expired_blocks_is_left_alone_and_stops_no_write(make_bench):
    bench, shelf, remaining = stored_small(make_bench, range(-30, -6))
    bench.close()
    largest = max(bench.database.glob("*.sst"), key=lambda path: path.stat().st_size)
    flip_bit(largest, largest.stat().st_size // 2)
    bench.open()
    shelf.expire()
    bench.settle()
    for _ in range(6):
        remaining += shelf.put(-1, 50, payload=os.urandom(10_000))
        bench.flush()
        bench.settle()
    shelf.expect(remaining)
    bench.reopen()
    bench.settle()
    remaining += shelf.put(-1)
    shelf.expect(remaining)


def test_what_a_crash_came_before_is_given_back_by_the_next_opening(make_bench):
    disk = FaultyDisk()
    shelf = Shelf(make_bench, disk.environment(ManualClock(NOW * 10**9)))
    for hour in range(-30, -6):
        shelf.put(hour, 50, payload=os.urandom(10_000))
    shelf.bench.flush()
    remaining = shelf.put(-1)
    disk.crash_at = disk.calls + 4
    with pytest.raises(SimulatedCrash):
        shelf.expire()
    disk.crash_at = None
    assert bytes_in(shelf.bench) > 10**7
    shelf.bench.crash()
    shelf.bench.open()
    shelf.bench.settle()
    assert bytes_in(shelf.bench) < 10**6
    shelf.expect(remaining)
