"""Tasks are cut from ranges and options alone, and cover every offset once."""

import pickle
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streaming_jobs.common.stream_location import StreamLocation
from streaming_jobs.source.driver.bounds import Edge, Move
from streaming_jobs.source.driver.stream_snapshot import StreamSnapshot
from streaming_jobs.source.options import Splitting
from streaming_jobs.source.partitions import (
    ShardRange,
    SourceTask,
    pack_ranges,
    split_ranges,
    tasks_of,
)

RANGES = st.dictionaries(
    st.tuples(st.sampled_from("st"), st.integers(0, 20)),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
)
PLACE = StreamLocation("/r", "s", "root", "inc")
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
    tasks = split_ranges({("s", 0): (0, 900), ("s", 1): (50, 150)}, Splitting(partitions_min=10))
    assert len(tasks) == 10
    assert tasks[-1] == (("s", 1), 50, 150)


@given(RANGES, SPLITTINGS)
def test_packing_keeps_every_range_in_its_order(ranges, splitting):
    whole = {shard: (begin, begin + size) for shard, (begin, size) in ranges.items()}
    cut = split_ranges(whole, splitting)
    assert [one for task in pack_ranges(cut, splitting) for one in task] == cut


def sizes(tasks):
    return [sum(end - begin for _, begin, end in task) for task in tasks]


def test_small_ranges_share_a_task():
    tasks = pack_ranges([(("s", n), 0, 3_000) for n in range(7)], Splitting())
    assert sizes(tasks) == [9_000, 9_000, 3_000]


def test_no_task_reads_more_shards_than_it_saves_time_for():
    tasks = pack_ranges([((f"s{n:03}", 0), 0, 5) for n in range(150)], Splitting())
    assert sizes(tasks) == [320, 320, 110]


def test_large_range_has_a_task_of_its_own():
    tasks = pack_ranges([(("s", 0), 0, 10), (("s", 1), 0, 10**6), (("s", 2), 0, 10)], Splitting())
    assert sizes(tasks) == [10, 10**6, 10]


def test_shared_task_is_no_larger_than_asked():
    tasks = pack_ranges([(("s", n), 0, 300) for n in range(5)], Splitting(records_max=700))
    assert sizes(tasks) == [600, 600, 300]


def test_where_a_number_of_tasks_is_asked_for_none_is_shared():
    assert len(pack_ranges([(("s", n), 0, 10) for n in range(5)], Splitting(partitions_min=2))) == 5


def test_empty_ranges_make_no_task():
    assert split_ranges({("s", 0): (5, 5), ("s", 1): (9, 3)}, Splitting(4, 10)) == []


@given(RANGES, SPLITTINGS)
def test_one_range_of_each_shard_reads_on_where_its_end_moves(ranges, splitting):
    edges = {name: (Edge(at), Edge(at + size, Move())) for name, (at, size) in ranges.items()}
    lineages = {shard: "lin" for _, shard in ranges}
    ends = {shard: at + size for (_, shard), (at, size) in ranges.items()}
    looks = {
        name: StreamSnapshot(replace(PLACE, stream=name), lineages, ends) for name in ("s", "t")
    }
    tasks = tasks_of(looks, edges, splitting)
    task_ranges = [one for task in tasks for one in task.ranges]  # type: ignore[attr-defined]  # ours
    reading_on = [((one.place.stream, one.shard), one.end) for one in task_ranges if one.moves[1]]
    assert sorted(reading_on) == sorted((n, at + size) for n, (at, size) in ranges.items())


def test_task_is_pickled_whole():
    task = SourceTask((ShardRange(PLACE, 3, "lin", 5, 9),))
    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301 - our own bytes
