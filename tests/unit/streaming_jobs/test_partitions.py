"""Tasks are cut from ranges and options alone, and cover every offset once."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from streaming_jobs.options import Splitting
from streaming_jobs.partitions import SourcePartition, StreamPlace, split_ranges

RANGES = st.dictionaries(
    st.integers(0, 20), st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))
)
SPLITTINGS = st.builds(
    Splitting, st.none() | st.integers(1, 40), st.none() | st.integers(2_000, 10**6)
)


@given(RANGES, SPLITTINGS)
def test_tasks_cover_every_offset_once(ranges, splitting):
    whole = {shard: (begin, begin + size) for shard, (begin, size) in ranges.items()}
    tasks = split_ranges(whole, splitting)
    for shard, (begin, end) in whole.items():
        own = [(first, last) for n, first, last in tasks if n == shard]
        edges = [begin, *[last for _, last in own]] if own else [begin]
        assert [first for first, _ in own] == edges[:-1]
        assert edges[-1] == end


@given(RANGES, st.integers(1_000, 10**6))
def test_no_task_is_larger_than_asked(ranges, most):
    whole = {shard: (begin, begin + size) for shard, (begin, size) in ranges.items()}
    tasks = split_ranges(whole, Splitting(records_max=most))
    assert all(end - begin <= most for _, begin, end in tasks)


def test_large_shards_are_cut_until_there_are_enough_tasks():
    tasks = split_ranges({0: (0, 900), 1: (50, 150)}, Splitting(partitions_min=10))
    assert len(tasks) == 10
    assert tasks[-1] == (1, 50, 150)


def test_empty_ranges_make_no_task():
    assert split_ranges({0: (5, 5), 1: (9, 3)}, Splitting(4, 10)) == []


def test_task_is_pickled_whole():
    task = SourcePartition(StreamPlace("/r", "s", "root", "inc"), 3, "lin", 5, 9)
    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301 - our own bytes
