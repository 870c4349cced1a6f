"""What maintenance finds due: enough rows, or rows that have waited for long enough."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from storage_core import Environment, InvalidRequestError, StreamReader
from storage_core.testing import ManualClock

REPOSITORY = Path(__file__).parents[3]
# What nobody has done in this process yet, where it may open no more files.
FIRST_USE = """
import sys
from storage_core import Stream, StreamOptions, UnavailableError
from tests.descriptors import descriptors_left

def refused(call):
    try:
        with descriptors_left(0):
            call()
    except UnavailableError as error:
        assert "cannot be loaded now: [Errno 24] Too many open files" in str(error)
        assert error.stream == "s"
    else:
        sys.exit(f"{call.__name__} loads nothing")

"""
STEPS = """
with Stream.create(sys.argv[1], "s", StreamOptions(shards=1)) as stream:
    stream.append(1, 1, b"a")
    stream.commit()
    for step in (stream.maintain, stream.seal, stream.compact, stream.trim):
        refused(step)
    assert (stream.seal().rows, stream.trim().rows) == (1, 1)
"""
READ = """
with Stream.open(sys.argv[1], "s") as stream:
    refused(stream.read)
    assert stream.read().num_rows == 1
"""


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def bench(make_bench, clock):
    """A stream whose rows are sealed once ten wait, or one has done so for a minute."""
    environment = Environment(clock=clock, has_index_worker=False)
    return make_bench(
        environment=environment, seal_rows=10, seal_after=timedelta(minutes=1), block_records=5
    )


def sealed(bench) -> int:
    """Do what is due; return how many rows were sealed."""
    rows: int = bench.stream.maintain().rows_sealed
    return rows


def test_rows_are_sealed_once_enough_wait(bench):
    bench.keep(range(9))
    assert sealed(bench) == 0
    bench.keep([9])
    assert sealed(bench) == 10
    assert sealed(bench) == 0


def test_few_rows_are_sealed_once_the_oldest_has_waited(bench, clock):
    bench.keep([1])
    clock.advance(59)
    bench.keep([2])
    assert sealed(bench) == 0
    clock.advance(1)
    assert sealed(bench) == 2
    clock.advance(3600)
    assert bench.stream.maintain().is_idle


@pytest.mark.parametrize(("lag_s", "due_s"), [(5, 5), (3600, 60)])
def test_rows_for_a_lake_are_sealed_in_time_for_that(bench, clock, tmp_path, lag_s, due_s):
    bench.stream.alter(lake=tmp_path.as_uri(), lake_lag=timedelta(seconds=lag_s))
    bench.keep([1])
    clock.advance(due_s - 1)
    assert sealed(bench) == 0
    clock.advance(1)
    assert sealed(bench) == 1


def test_first_row_at_or_above_an_address_says_when_it_was_committed(bench, clock):
    bench.keep([1, 2])
    then_ms = clock.now_ns() // 10**6
    clock.advance(60)
    bench.keep([3])
    stream = bench.stream
    shard, end = next((n, end) for n, end in stream.committed().items() if end)
    with StreamReader.open(bench.root, bench.name) as reader:
        for first_committed_ms in (stream.first_committed_ms, reader.first_committed_ms):
            assert first_committed_ms(shard, 0) == then_ms
            assert first_committed_ms(shard, end - 1) == then_ms + 60_000
            assert first_committed_ms(shard, end) is None


def test_rows_of_the_future_are_sealed_at_once(bench, clock):
    clock.advance(10**6)
    bench.keep([1])
    clock.advance(-(10**6))
    assert sealed(bench) == 1
    bench.keep([2])
    assert sealed(bench) == 0
    clock.advance(60)
    assert sealed(bench) == 1


def test_rows_that_are_not_committed_wait(bench, clock):
    bench.append(range(50))
    clock.advance(3600)
    assert sealed(bench) == 0


def test_sealing_again_and_again_leaves_few_parts(bench):
    for first in range(0, 500, 10):
        bench.keep(range(first, first + 10))
        bench.stream.maintain()
    parts = bench.stream.parts()
    assert len(parts) <= 12
    assert sum(one.entry.rows for one in parts) == 500
    assert bench.primaries() == list(range(500))


def test_stream_that_is_never_cold_is_left_alone(bench, clock):
    bench.stream.alter(never_cold=True)
    bench.keep(range(50))
    clock.advance(3600)
    assert bench.stream.maintain().is_idle
    assert bench.stream.parts() == []


def test_stream_that_is_never_cold_is_not_sealed_by_hand(bench):
    bench.keep(range(50))
    assert bench.stream.seal().rows == 50
    bench.stream.alter(never_cold=True)
    bench.keep(range(50, 60))
    with pytest.raises(InvalidRequestError, match=r"is never_cold: .* become no parts"):
        bench.stream.seal()
    # What is sealed already is still looked after.
    for do in (lambda: bench.stream.seal(rebuild=True), bench.stream.compact, bench.stream.trim):
        assert do().rows_sealed == 0
    assert sum(one.entry.rows for one in bench.stream.parts()) == 50
    assert bench.primaries() == list(range(60))


def test_blocks_go_once_they_are_sealed_and_old(bench, clock):
    bench.stream.alter(keep_hot=timedelta(hours=1))
    bench.keep(range(50))
    report = bench.stream.maintain()
    assert (report.rows_sealed, report.rows_trimmed) == (50, 0)
    clock.advance(3600)
    assert bench.stream.maintain().rows_trimmed == 50
    assert bench.stream.maintain().is_idle
    assert bench.primaries() == list(range(50))


def test_what_waits_is_told_by_writer_and_reader(bench):
    bench.keep(range(12))
    assert bench.stream.unsealed() == {0: 12}
    sealed(bench)
    bench.keep(range(12, 15))
    assert bench.stream.unsealed() == {0: 3}
    with bench.read_beside() as reader:
        assert reader.unsealed() == {0: 3}
    assert bench.stream.untrimmed() == {0: 12}
    bench.stream.trim()
    assert bench.stream.untrimmed() == {0: 0}
    with bench.read_beside() as reader:
        assert (reader.unsealed(), reader.untrimmed()) == ({0: 3}, {0: 0})


def test_what_cannot_be_loaded_for_want_of_descriptors_is_done_later(root):
    for script in (STEPS, READ):
        command = [sys.executable, "-c", FIRST_USE + script, str(root)]
        subprocess.run(command, cwd=REPOSITORY, check=True)
