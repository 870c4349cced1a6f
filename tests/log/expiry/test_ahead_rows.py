"""Rows ahead of the clock where others expire: what a replay has of them, and what is told."""

from contextlib import closing

import pyarrow as pa
import pytest

from storage_core import LostRangeError
from storage_core.sql.pool.pooled_stream import PooledStream
from tests.log.expiry.shelf import HOUR, KEPT, NOW, Shelf, start_of, tail_of
from tests.log.workbench import batch_of, column_of

YEAR_2100 = 4_102_444_800


def test_row_ahead_that_came_after_all_that_expires_stays_in_the_replay(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7, 3)
    shelf.bench.keep([YEAR_2100], secondary=7)
    shelf.expire()
    assert start_of(shelf.bench) == 3
    for _ in range(2):
        assert tail_of(shelf.stream, 3) == [YEAR_2100]
        shelf.expect([YEAR_2100])
        shelf.bench.reopen()
        assert shelf.expire(hours=1).blocks == 0


def test_row_ahead_between_what_expires_and_what_stays_is_in_the_replay_until_more_goes(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7, 3)
    shelf.bench.keep([YEAR_2100], secondary=7, addresses=[9])
    remaining = shelf.put(-1)
    assert shelf.expire().blocks == 1
    assert tail_of(shelf.stream, 3) == [YEAR_2100, *remaining]
    shelf.expect([YEAR_2100, *remaining])
    last = shelf.put(4)
    assert shelf.expire(hours=5).blocks == 2
    assert start_of(shelf.bench) == 11
    shelf.expect([YEAR_2100, *last])


def test_row_ahead_in_a_block_with_rows_that_expire_goes_from_the_replay_with_them(make_bench):
    shelf = Shelf(make_bench)
    shelf.bench.keep([NOW - 7 * HOUR, YEAR_2100], secondary=[1, 7])
    shelf.bench.keep([YEAR_2100 + 1], secondary=7)
    assert shelf.expire().blocks == 1
    with pytest.raises(LostRangeError, match=r"expired.*\[0, 2\)"):
        tail_of(shelf.stream, 0)
    assert tail_of(shelf.stream, 2) == [YEAR_2100 + 1]
    shelf.expect([YEAR_2100, YEAR_2100 + 1])


def test_rows_ahead_hold_back_nothing_that_came_late_behind_them(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7)
    shelf.bench.keep([YEAR_2100], secondary=7)
    shelf.put(-8)
    assert shelf.expire().blocks == 3
    assert start_of(shelf.bench) == 3
    shelf.expect([YEAR_2100])


def test_row_ahead_stays_in_the_replay_while_what_came_behind_it_is_not_committed(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7, 3)
    shelf.bench.keep([YEAR_2100], secondary=7)
    shelf.stream.append_batch(batch_of([NOW - 7 * HOUR], secondary=2))
    shelf.expire()
    assert tail_of(shelf.stream, 3)[:1] == [YEAR_2100]
    shelf.put(-1)
    shelf.expire(hours=9)
    assert start_of(shelf.bench) == 6
    shelf.expect([YEAR_2100])


def test_row_ahead_is_let_go_with_its_block_once_it_has_expired(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-7, 3)
    shelf.bench.keep([YEAR_2100], secondary=7)
    shelf.expire()
    assert shelf.stream.expire(YEAR_2100 + 9 * HOUR).blocks == 1
    assert start_of(shelf.bench) == 4
    shelf.expect([])


def test_rows_ahead_without_blocks_are_among_the_records_of_a_cap(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-9)
    ahead = [YEAR_2100 + number for number in range(4)]
    shelf.bench.keep(ahead, secondary=7)
    shelf.put(-8, secondary=8)
    remaining = shelf.put(-1, 2)
    assert shelf.expire().rows == 2
    shelf.expect([*ahead, *remaining])
    shelf.stream.alter(records_max=6)
    for number in range(4):
        remaining += shelf.put(0, secondary=20 + number)
        if number == 2:
            shelf.bench.reopen()
        assert shelf.expire(dry_run=True).rows == 1
        assert shelf.expire().rows == 1
        shelf.expect([*ahead[number + 1 :], *remaining])
        assert shelf.expire().rows == 0
    assert shelf.stream.latest(7) == {}


def test_cap_goes_through_rows_ahead_whose_blocks_went_behind_a_straggler(make_bench):
    shelf = Shelf(make_bench, records_max=8)
    straggler = shelf.put(9, secondary=9)
    shelf.put(-9)
    ahead = [YEAR_2100 + number for number in range(4)]
    shelf.bench.keep(ahead, secondary=7)
    shelf.put(-8, secondary=8)
    remaining = shelf.put(-1)
    assert shelf.expire().rows == 2
    shelf.expect([*straggler, *ahead, *remaining])
    for number, gone in enumerate((0, 0, 1, 1, 1, 1, 1, 1)):
        remaining += shelf.put(0, secondary=20 + number)
        assert shelf.expire().rows == gone
        held = [*straggler, *ahead, *remaining]
        shelf.expect(held[max(0, len(held) - 8) :])
        assert tail_of(shelf.stream, shelf.stream.committed()[0] - 1) == remaining[-1:]
        shelf.bench.reopen()


def test_row_ahead_that_a_cap_has_hidden_is_not_counted_again_without_its_block(make_bench):
    shelf = Shelf(make_bench, records_max=3)
    begin = NOW - 4 * HOUR
    shelf.bench.keep([begin, YEAR_2100, begin + 1], secondary=[1, 7, 1])
    remaining = shelf.put(0, 2)
    assert shelf.expire().rows == 2
    shelf.expect([begin + 1, *remaining])
    assert shelf.expire(hours=2).blocks == 1
    shelf.expect(remaining)
    for gone in (0, 1):
        remaining += shelf.put(0, secondary=20 + gone)
        assert shelf.expire(hours=2).rows == gone
        shelf.expect(remaining[-3:])


def test_rows_ahead_that_a_cap_of_bytes_takes_without_blocks_are_told(make_bench):
    shelf = Shelf(make_bench)
    shelf.bench.keep([YEAR_2100, YEAR_2100 + 1], secondary=7)
    shelf.put(-9)
    remaining = [*shelf.put(0), *shelf.put(1)]
    assert shelf.expire().blocks == 2
    shelf.expect([YEAR_2100, YEAR_2100 + 1, *remaining])
    shelf.stream.alter(bytes_max=0)
    assert shelf.expire().rows == 3
    shelf.expect(remaining[1:])


def test_rows_ahead_are_shown_between_small_blocks_that_are_read_together(make_bench):
    shelf = Shelf(make_bench)
    stragglers = [one for at in range(4) for one in shelf.put(9, secondary=20 + at)]
    shelf.bench.keep([NOW - 9 * HOUR, YEAR_2100], secondary=[1, 7])
    remaining = [one for at in range(3) for one in shelf.put(-1, secondary=30 + at)]
    assert shelf.expire().blocks == 1
    assert shelf.bench.arrivals() == [*stragglers, YEAR_2100, *remaining]


def test_rows_ahead_are_shown_between_small_blocks_of_an_id_with_others_between(make_bench):
    shelf = Shelf(make_bench)
    first = [one for _ in range(2) for one in shelf.put(-1, secondary=1)]
    shelf.bench.keep([NOW - 9 * HOUR, YEAR_2100], secondary=[5, 1])
    # What is not asked for stays between what has expired and what is.
    shelf.put(-1, secondary=2)
    last = [one for _ in range(2) for one in shelf.put(-1, secondary=1)]
    assert shelf.expire().blocks == 1
    with shelf.bench.read_beside() as reader:
        for reads in (shelf.stream, reader):
            assert column_of(reads.scan(1), "primary") == [*first, YEAR_2100, *last]


def test_rows_ahead_without_blocks_are_sealed_once_and_stay_in_every_read(make_bench):
    shelf = Shelf(make_bench)
    shelf.bench.keep([NOW - 7 * HOUR, YEAR_2100], secondary=[1, 7])
    remaining = shelf.put(-1)
    straggler = shelf.put(1, secondary=9)
    shelf.bench.keep([NOW - 9 * HOUR, YEAR_2100 + 1], secondary=[2, 8])
    assert shelf.expire().blocks == 2
    held = [YEAR_2100, *remaining, *straggler, YEAR_2100 + 1]
    shelf.expect(held)
    for _ in range(2):
        shelf.stream.seal()
        shelf.expect(held)
        shelf.bench.reopen()
    shelf.stream.expire(YEAR_2100 + KEPT * HOUR + 1)
    shelf.expect([YEAR_2100 + 1])


def test_rows_ahead_that_are_all_that_is_left_are_sealed(make_bench):
    shelf = Shelf(make_bench)
    shelf.bench.keep([NOW - 7 * HOUR, YEAR_2100], secondary=[1, 7])
    shelf.expire()
    assert [step.rows for step in shelf.stream.seal().shards[0].steps] == [1]
    shelf.expect([YEAR_2100])
    assert shelf.stream.seal().shards[0].steps == ()


def test_part_of_rows_ahead_without_blocks_is_rebuilt(make_bench):
    shelf = Shelf(make_bench)
    shelf.bench.keep([NOW - 7 * HOUR, YEAR_2100], secondary=[1, 7])
    shelf.expire()
    shelf.stream.seal()
    for path in shelf.bench.shard_directory.glob("sealed/*.rows"):
        path.unlink()
    shelf.stream.seal(rebuild=True)
    shelf.expect([YEAR_2100])


def test_rows_ahead_without_blocks_are_in_a_stream_that_stays_open_for_queries(make_bench):
    shelf = Shelf(make_bench)
    shelf.bench.keep([NOW - 7 * HOUR, YEAR_2100], secondary=[1, 7])
    with closing(PooledStream(shelf.bench.root, shelf.bench.name)) as pooled:
        for _ in range(2):
            for owners in (None, (7,)):
                tables = [table for _, table in pooled.snapshot(owners).rows.hot]
                assert YEAR_2100 in column_of(pa.concat_tables(tables), "primary")
            shelf.expire()
