"""Expiry: exactly the rows below the floor go, whole windows and blocks of them from the disk."""

from datetime import UTC, datetime, timedelta

import pytest

from storage_core import (
    Environment,
    InvalidRequestError,
    LostRangeError,
)
from storage_core.testing import ManualClock
from tests.log.expiry.shelf import (
    HOUR,
    KEPT,
    NOW,
    SeekingDisk,
    Shelf,
    expect_rows,
    start_of,
    tail_of,
)
from tests.log.workbench import batch_of, column_of, rows_of
from tests.thin import covering

YEAR_2100 = 4_102_444_800


# --- what goes and what stays -----------------------------------------------------------------


@covering(old=[0, 1, 14, 15, 16, 17, 30, 31, 32, 500, 5000], way=["batches", "single records"])
def test_exactly_the_recent_rows_stay(make_bench, old, way):
    shelf = Shelf(make_bench, block_records=16)
    rows = [NOW - 50 * HOUR + at for at in range(old)]
    recent = [NOW - HOUR + at for at in range(10)]
    if way == "batches":
        shelf.bench.append(rows)
        shelf.bench.append(recent)
    else:
        for primary in (*rows, *recent):
            shelf.stream.append(primary, 1, b"x")
    shelf.bench.commit()
    report = shelf.expire()
    assert report.rows == old
    shelf.expect(recent)
    shelf.bench.reopen()
    shelf.expect(recent)
    assert shelf.expire().rows == 0
    shelf.expect(recent)


WIDTHS = {
    "minute": (timedelta(minutes=10), datetime(2024, 3, 31, 23, 59, tzinfo=UTC), 60),
    "hour": (timedelta(hours=20), datetime(2024, 2, 29, 23, tzinfo=UTC), HOUR),
    "day": (timedelta(days=5), datetime(2024, 2, 29, tzinfo=UTC), 24 * HOUR),
    "week": (timedelta(days=20), datetime(2024, 2, 26, tzinfo=UTC), 7 * 24 * HOUR),
    "month": (timedelta(days=400), datetime(2024, 2, 1, tzinfo=UTC), 29 * 24 * HOUR),
}


@covering(width=[*WIDTHS], unit=["s", "ms", "us", "ns"])
def test_windows_go_at_their_edges(make_bench, width, unit):
    retention, begin, seconds = WIDTHS[width]
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    first = int(begin.timestamp()) * scale
    end = first + seconds * scale
    clock = ManualClock(wall_ns=end // scale * 10**9)
    shelf = Shelf(make_bench, Environment(clock), unit=unit, retention=retention)
    rows = [first - 1, first, end - 1, end]
    for row in rows:
        shelf.bench.keep([row])
    span = int(retention.total_seconds()) * scale
    for floor, left, windows in [
        (first - 1, 4, 0),
        (first, 3, 1),
        (first + 1, 2, 0),
        (end - 1, 2, 0),
        (end, 1, 1),
        (end + 1, 0, 0),
    ]:
        report = shelf.stream.expire(floor + span)
        assert (report.windows, report.rows) == (windows, windows and windows + (floor == end))
        shelf.expect(rows[4 - left :])


def test_late_rows_go_with_their_window_and_are_counted(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-9)
    gone, stays = shelf.put(-20, 3), shelf.put(-2)
    late = shelf.put(-4, 2)
    report = shelf.expire()
    assert (report.rows, report.late_rows, report.windows) == (1 + len(gone), len(gone), 2)
    shelf.expect([*stays, *late])


def test_floor_never_falls(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7)
    remaining = shelf.put(-1)
    floor = shelf.expire().shards[0].floor_after
    assert floor == NOW - 5 * HOUR
    shelf.stream.alter(retention=timedelta(hours=50))
    for end in (lambda: None, shelf.bench.reopen, shelf.bench.reopen):
        end()
        again = shelf.expire(-30).shards[0]
        assert (again.floor_before, again.floor_after) == (floor, floor)
        assert shelf.bench.append([NOW - 6 * HOUR]).expired == 1
    shelf.expect(remaining)


def test_time_is_the_clocks_unless_it_is_given(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7)
    remaining = shelf.put(-1)
    assert shelf.stream.expire().shards[0].floor_after == NOW - 5 * HOUR
    shelf.expect(remaining)
    shelf.clock.advance(100 * HOUR)
    shelf.stream.expire()
    shelf.expect([])


@pytest.mark.parametrize("now", [1.5, "now", 2**63, True])
def test_time_that_is_none_is_refused(make_bench, now):
    with pytest.raises(InvalidRequestError, match=r"now .* is not a time in s"):
        Shelf(make_bench).stream.expire(now)


def test_each_shard_is_told_of(make_bench):
    shelf = Shelf(make_bench, shards=4)
    for secondary in (1, 2):
        shelf.put(-7, secondary, secondary=secondary)
    report = shelf.expire()
    assert {n: one.rows for n, one in report.shards.items()} == {0: 0, 1: 1, 2: 2, 3: 0}
    assert (report.rows, report.blocks, report.windows) == (3, 2, 2)
    assert report.bytes > 0


# --- the disk -----------------------------------------------------------------------------------


def visible_rows(shelf):
    return len(column_of(shelf.stream.scan(), "primary"))


@pytest.mark.parametrize("way", ["hot", "trimmed", "cut", "uncommitted"])
@pytest.mark.parametrize("hours", [[0.3], [0.3, 0.6, 4.5, 5], [4, 9]])
def test_dry_run_says_exactly_how_many_rows_reads_show_no_more(make_bench, way, hours):
    shelf = Shelf(make_bench, block_records=16)
    for begin in range(-7, 1):
        # The window that the floor cuts through keeps rows on both sides of it.
        shelf.bench.keep([NOW + begin * HOUR + hour * 60 for hour in range(60)])
    shelf.bench.keep([NOW - HOUR + hour for hour in range(9)], secondary=7)
    # Late, and ahead of the clock.
    shelf.bench.keep([NOW - 5 * HOUR + 1800, YEAR_2100, NOW + 3 * HOUR], secondary=7)
    if way == "trimmed":
        shelf.stream.seal()
        shelf.stream.trim()
    elif way == "cut":
        shelf.stream.alter(records_max=300)
    elif way == "uncommitted":
        shelf.bench.append([NOW - 4 * HOUR])
    for hour in hours:
        before, dry_report = visible_rows(shelf), shelf.expire(hour, dry_run=True)
        assert visible_rows(shelf) == before
        done = shelf.expire(hour)
        assert before - visible_rows(shelf) == dry_report.hidden
        assert (done.rows, done.hidden) == (dry_report.rows, None)
        assert shelf.expire(hour, dry_run=True).hidden == 0


def test_log_begins_where_the_first_row_that_stays_was_stored(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-9, 5)
    shelf.put(-7, 5)
    remaining = shelf.put(-1, 5)
    report = shelf.expire().shards[0]
    assert (report.start_before, report.start_after, report.blocks) == (0, 10, 2)
    assert start_of(shelf.bench) == 10
    assert tail_of(shelf.stream, 10) == remaining
    for begin in (0, 9):
        with pytest.raises(LostRangeError, match="expired"):
            tail_of(shelf.stream, begin)


def test_nothing_to_do_costs_one_seek(make_bench):
    disk = SeekingDisk()
    shelf = Shelf(make_bench, disk.environment)
    remaining = shelf.put(-1, 50)
    shelf.put(-1)
    before = len(disk.calls)
    report = shelf.expire()
    assert disk.calls[before:] == ["snapshot", "at_or_after", "close"]
    assert report.rows == 0
    shelf.expect(remaining + remaining[:1])


def test_floor_that_found_nothing_to_do_is_kept_with_the_next_batch(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-1)
    shelf.expire()
    shelf.put(-1)
    shelf.bench.crash()
    shelf.bench.open()
    assert shelf.bench.append([NOW - 6 * HOUR]).expired == 1


def test_floor_that_found_nothing_to_do_outlives_a_close(make_bench):
    shelf = Shelf(make_bench)
    shelf.expire()
    shelf.bench.reopen()
    assert shelf.bench.append([NOW - 6 * HOUR]).expired == 1
    assert shelf.expire(-30).shards[0].floor_before == NOW - 5 * HOUR


def test_windows_and_blocks_that_went_are_not_looked_at_again(make_bench):
    shelf = Shelf(make_bench)
    for hours in range(-30, 0):
        shelf.put(hours)
    assert shelf.expire().blocks == 25
    assert shelf.expire().blocks == 0
    assert shelf.expire(hours=1).blocks == 1


def test_what_was_lost_below_the_logs_start_is_forgotten(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7)
    shelf.put(-7)
    remaining = shelf.put(-1)
    shelf.bench.close()
    shelf.bench.lose(0, 1)
    shelf.bench.open()
    shelf.expire()
    assert shelf.stream.lost_ranges() == {0: []}
    shelf.bench.reopen()
    assert shelf.stream.lost_ranges() == {0: []}
    shelf.expect(remaining)


# --- what holds nothing back --------------------------------------------------------------------


def straggling(make_bench) -> Shelf:
    """Return a shelf with a row that stays before thirty blocks that do not."""
    shelf = Shelf(make_bench)
    shelf.put(3, secondary=9)
    for hours in range(-40, -10):
        shelf.put(hours, 4)
    return shelf


def test_blocks_behind_a_straggler_go_and_one_zone_holds_their_place(make_bench):
    shelf = straggling(make_bench)
    remaining = [NOW + 3 * HOUR, *shelf.put(-1)]
    report = shelf.expire()
    assert (report.blocks, report.shards[0].start_after) == (30, 0)
    shelf.expect(remaining)
    with shelf.bench.read_beside() as reader:
        assert reader.missing(0, 0, 200) == [(1, 121)]
        for reads in (shelf.stream, reader):
            assert tail_of(reads, 121) == remaining[1:]
            assert column_of(reads.tail(0, 0, 1), "primary") == remaining[:1]
            with pytest.raises(LostRangeError, match=r"expired.*\[1, 121\)"):
                tail_of(reads, 0)


def test_expired_zone_grows_until_the_log_starts_above_it(make_bench):
    shelf = straggling(make_bench)
    for hours in (-10, -9, -1):
        shelf.put(hours)
    shelf.expire(hours=-4)
    shelf.put(-1)
    assert shelf.expire().blocks == 1
    with shelf.bench.read_beside() as reader:
        assert reader.missing(0, 0, 200) == [(1, 123)]
        shelf.bench.reopen()
        report = shelf.expire(hours=9).shards[0]
        assert (report.start_after, report.blocks) == (125, 3)
        assert reader.missing(0, 0, 200) == [(0, 125)]
    shelf.expect([])


def test_block_with_a_late_row_that_stays_stays_behind_a_straggler(make_bench):
    shelf = Shelf(make_bench)
    stays = shelf.put(3, secondary=9)
    stays += shelf.put(-1)
    mixed = [NOW - 20 * HOUR, NOW - 2 * HOUR]
    shelf.bench.keep(mixed, secondary=[5, 1])
    shelf.put(-20, secondary=6)
    assert shelf.expire().blocks == 1
    shelf.expect([*stays, mixed[1]])


def test_clock_in_2100_holds_nothing_back_and_its_row_stays(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-8)
    shelf.bench.keep([YEAR_2100, YEAR_2100 + 1], secondary=[1, 7])
    for hours in range(-30, -10):
        shelf.put(hours, 4)
    ahead = [YEAR_2100, YEAR_2100 + 1]
    remaining = shelf.put(-1)
    report = shelf.expire().shards[0]
    assert (report.start_after, report.blocks) == (83, 22)
    for _ in range(2):
        shelf.expect([*ahead, *remaining])
        assert shelf.stream.latest(7)[7].primary == YEAR_2100 + 1
        assert column_of(shelf.stream.scan(ids=7), "primary") == ahead[1:]
        assert shelf.stream.latest([1])[1].address == 1
        shelf.bench.reopen()
    shelf.stream.expire(YEAR_2100 + 6 * HOUR)
    shelf.expect([])


def test_row_that_is_ahead_behind_a_straggler_stays_without_its_block(make_bench):
    shelf = Shelf(make_bench)
    remaining = shelf.put(3, secondary=9)
    shelf.put(-30)
    shelf.bench.keep([YEAR_2100], secondary=7)
    shelf.put(-30)
    remaining += [YEAR_2100, *shelf.put(-1)]
    assert shelf.expire().blocks == 3
    shelf.expect(remaining)
    assert column_of(shelf.stream.scan(), "primary") == remaining
    assert column_of(shelf.stream.scan(versions=[3]), "primary") == []
    assert shelf.stream.latest(7)[7].primary == YEAR_2100


# --- beside readers -----------------------------------------------------------------------------


def test_scan_of_the_writer_shows_the_moment_it_began_in(make_bench):
    shelf = Shelf(make_bench)
    rows = [row for hours in range(-30, 0) for row in shelf.put(hours, 3)]
    scan, replay = shelf.stream.scan(), shelf.stream.tail(0)
    begun = [*rows_of([next(scan)]), *rows_of([next(replay)])]
    shelf.expire()
    assert len(begun) == 6
    assert [row["primary"] for row in (*begun[:3], *rows_of(scan))] == rows
    assert [row["primary"] for row in (*begun[3:], *rows_of(replay))] == rows
    assert shelf.stream.lost_ranges() == {0: []}


@pytest.mark.parametrize("moment", ["before snapshot", "after snapshot"])
def test_read_that_expiry_overtakes_as_it_begins_is_right(make_bench, hooked, moment):
    shelf = Shelf(make_bench, hooked.environment)
    shelf.put(-7, 3)
    remaining = shelf.put(-1)
    hooked.on(moment, shelf.expire)
    assert shelf.bench.arrivals() in (
        remaining,
        [NOW - 7 * HOUR + at for at in range(3)] + remaining,
    )
    expect_rows(shelf.stream, remaining)
    assert shelf.stream.lost_ranges() == {0: []}


def test_reader_that_expiry_overtakes_goes_on_or_says_what_is_gone(make_bench):
    shelf = Shelf(make_bench)
    rows = [row for hours in range(-30, 0) for row in shelf.put(hours, 3)]
    remaining = [row for row in rows if row >= NOW - 5 * HOUR]
    with shelf.bench.read_beside() as reader:
        scan = reader.scan()
        seen = column_of([next(scan)], "primary")
        shelf.expire()
        shelf.bench.flush_state()
        seen += column_of(scan, "primary")
        assert [row for row in seen if row in remaining] == remaining
        assert seen == rows[: len(seen) - len(remaining)] + remaining
        expect_rows(reader, remaining)
        with pytest.raises(LostRangeError):
            tail_of(reader, 0)


def test_verify_takes_no_late_row_for_an_absorbed_one_where_the_head_has_expired(make_bench):
    environment = Environment(ManualClock(wall_ns=10_000 * 10**9), has_index_worker=False)
    bench = make_bench(unit="s", jitter=3, retention=timedelta(minutes=10), environment=environment)
    bench.keep([9_000], secondary=3)
    bench.keep([9_990, 8_000, 7_999], secondary=[1, 3, 3])
    bench.stream.expire(10_100)
    assert bench.stream.verify().problems == ()


@pytest.mark.parametrize("change", ["seal", "compact", "trim"])
def test_floor_never_falls_though_a_step_of_maintenance_comes_before_the_next_batch(
    make_bench, change
):
    shelf = Shelf(make_bench, block_records=16, keep_hot=timedelta(milliseconds=1))
    for hours in (-4, -3, -2, -1, -0.5):
        shelf.put(hours, 10)
        shelf.stream.seal()
    shelf.put(-0.25, 10)
    # Nothing lies below it yet, so that it goes to disk with what is written next.
    assert [shard.floor_after for shard in shelf.expire().shards.values()] == [NOW - KEPT * HOUR]
    getattr(shelf.stream, change)()
    shelf.bench.reopen()
    assert shelf.stream.append_batch(batch_of([NOW - (KEPT + 1) * HOUR])).expired == 1
    shelf.expect(
        [row for row in column_of(shelf.stream.scan(), "primary") if row >= NOW - 4 * HOUR]
    )
