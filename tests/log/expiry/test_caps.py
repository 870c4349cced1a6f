"""Caps: a shard holds so many records or bytes, and those stored first go."""

from datetime import timedelta

import pytest

from tests.log.expiry.shelf import (
    NOW,
    SeekingDisk,
    Shelf,
    start_of,
)
from tests.log.workbench import column_of


def capped(make_bench, *, environment=None, **options) -> Shelf:
    """Return a shelf without a retention."""
    return Shelf(make_bench, environment, retention=None, **options)


@pytest.mark.parametrize("records_max", [0, 1, 9, 10, 11, 15, 29, 30, 31, 1000])
def test_exactly_the_newest_records_stay(make_bench, records_max):
    shelf = capped(make_bench, records_max=records_max)
    rows = [row for hours in range(3) for row in shelf.put(hours, 10)]
    remaining = rows[max(0, len(rows) - records_max) :]
    dry_report = shelf.expire(dry_run=True)
    report = shelf.expire()
    assert dry_report.shards == report.shards
    assert report.rows == len(rows) - len(remaining)
    assert report.blocks == (len(rows) - len(remaining)) // 10
    shelf.expect(remaining)
    shelf.bench.reopen()
    shelf.expect(remaining)
    assert shelf.expire().rows == 0


def test_records_of_a_block_go_one_by_one_and_are_counted_once(make_bench):
    shelf = capped(make_bench, records_max=10)
    rows = shelf.put(0, 10)
    for hour in range(1, 25):
        rows += shelf.put(hour)
        assert shelf.expire().rows == 1
        shelf.expect(rows[-10:])
        if hour % 5 == 0:
            shelf.bench.reopen()
    assert start_of(shelf.bench) == len(rows) - 10


def test_records_with_gaps_between_their_addresses_are_counted_as_records(make_bench):
    shelf = capped(make_bench, records_max=3)
    rows = [NOW + at for at in range(6)]
    shelf.bench.append(rows, addresses=[0, 5, 9, 20, 30, 41])
    shelf.bench.commit()
    shelf.expire()
    shelf.expect(rows[3:])


def test_bytes_are_those_of_whole_blocks_and_the_newest_stays(make_bench):
    shelf = capped(make_bench, bytes_max=25_000)
    rows = [row for hours in range(6) for row in shelf.put(hours, 10, payload=b"x" * 1000)]
    report = shelf.expire()
    assert (report.blocks, report.rows) == (4, 40)
    shelf.expect(rows[40:])
    shelf.stream.alter(bytes_max=0)
    shelf.expire()
    shelf.expect(rows[50:])


def test_each_shard_has_an_even_share(make_bench):
    shelf = capped(make_bench, shards=4, records_max=10)
    for secondary in range(4):
        shelf.put(0, 5 * secondary, secondary=secondary)
    shelf.expire()
    counts = [shelf.stream.read(ids=one).num_rows for one in range(4)]
    assert counts == [0, 3, 3, 3]


def test_cap_and_retention_go_together(make_bench):
    shelf = Shelf(make_bench, records_max=6)
    shelf.put(-9, 4)
    remaining = [*shelf.put(-2, 4), *shelf.put(-1, 4)]
    report = shelf.expire()
    assert report.rows == 6
    shelf.expect(remaining[-6:])
    shelf.expire(hours=4)
    shelf.expect(remaining[-4:])
    assert start_of(shelf.bench) == 8


def test_late_rows_stay_though_a_cap_took_the_row_that_they_are_late_behind(make_bench):
    shelf = capped(make_bench, records_max=10, block_records=4)
    shelf.put(0)
    rows = [row for at in range(5) for row in shelf.put(-90, 3)]
    assert shelf.expire().rows == 6
    rows = [*rows[5:], *shelf.put(-80, 3)]
    for _ in range(2):
        assert shelf.expire().rows == len(rows) - 10
        rows = rows[-10:]
        shelf.expect(rows)
        assert column_of(shelf.stream.scan(), "primary") == rows
        shelf.bench.reopen()
    assert shelf.stream.latest()[1].primary == max(rows)
    shelf.stream.alter(records_max=None, retention=timedelta(hours=85))
    shelf.expire()
    shelf.expect(rows[-3:])


def test_block_that_went_behind_a_straggler_is_not_counted_any_more(make_bench):
    shelf = Shelf(make_bench, records_max=20)
    remaining = shelf.put(0)
    shelf.put(-3, 4, secondary=2)
    shelf.put(-4, 4, secondary=3)
    remaining += shelf.put(-1, 10, secondary=4)
    for hours in (2, 3):
        assert shelf.expire(hours).blocks == 1
    remaining += shelf.put(-1, 9, secondary=5)
    assert shelf.expire(3).rows == 0
    shelf.expect(remaining)
    shelf.put(1, 1, secondary=5)
    assert shelf.expire(3).rows == 1


def test_row_that_comes_to_a_window_which_a_cap_takes_is_found(make_bench, hooked):
    shelf = capped(make_bench, environment=hooked.environment, records_max=3, ahead_max=2**62)
    shelf.put(-90, 4, secondary=2)
    remaining = shelf.put(0, 3)
    hooked.on("after snapshot", lambda: remaining.append(*shelf.put(-90, 1, secondary=3)))
    shelf.expire()
    shelf.expect(remaining)


@pytest.mark.parametrize("is_late", [False, True])
def test_newest_of_an_id_whose_rows_a_cap_took_costs_no_more_in_a_longer_log(make_bench, is_late):
    looks = []
    for blocks in (30, 120):
        disk = SeekingDisk()
        shelf = capped(make_bench, environment=disk.environment, records_max=blocks)
        shelf.put(0, 10)
        for hour in range(blocks):
            shelf.put(hour / 60, secondary=2)
        late = shelf.put(-3) if is_late else []
        shelf.expire()
        before = len(disk.calls)
        records = shelf.stream.latest([1])
        looks.append(len(disk.calls) - before)
        assert [one.primary for one in records.values()] == late
    assert looks[1] <= looks[0] + 2


def test_nothing_to_do_looks_at_what_came_since_only(make_bench):
    disk = SeekingDisk()
    shelf = capped(make_bench, environment=disk.environment, records_max=1000)
    for hours in range(30):
        shelf.put(hours)
    shelf.expire()
    before = len(disk.calls)
    shelf.expire()
    assert disk.calls[before:].count("write") == 0
    assert len(disk.calls[before:]) <= 6
