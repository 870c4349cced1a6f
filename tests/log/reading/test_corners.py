"""Corners of the reads, each asked of the writer and of a reader beside it."""

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import INT64_MAX, INT64_MIN, LostRangeError
from tests.log.disks import ReinedDisk
from tests.log.served import DOORS
from tests.log.workbench import Workbench, column_of, rows_of

NOW = ReinedDisk().clock.now_ns() // 10**9


def both(bench: Workbench, ask: Any) -> Any:
    """Ask the writer and a reader beside it, and return what both say."""
    with bench.read_beside() as reader:
        answers = [ask(bench.stream), ask(reader)]
    assert answers[0] == answers[1]
    return answers[0]


def test_tombstone_stays_apart_from_an_empty_payload(bench):
    bench.keep([3, 1, 2], payload=[None, b"", None])
    payloads = both(bench, lambda reads: column_of(reads.read(), "payload"))
    assert payloads == [b"", None, None]
    assert bench.stream.latest()[1].payload is None


@pytest.mark.parametrize("unit", ["s", "ns", "sequence"])
def test_primaries_at_both_ends_are_found_alone_and_together(make_bench, unit):
    bench = make_bench(unit=unit, ahead_max=INT64_MAX)
    bench.keep([INT64_MIN, 0, INT64_MAX, INT64_MIN])
    assert both(bench, lambda reads: column_of(reads.read(), "address")) == [0, 3, 1, 2]
    assert both(bench, lambda reads: column_of(reads.read(1, INT64_MAX), "address")) == [2]
    assert both(bench, lambda reads: column_of(reads.read(1, end=INT64_MIN), "address")) == [0, 3]
    assert bench.stream.latest(1)[1].primary == INT64_MAX
    assert bench.stream.available(1, 1, 5)[0] == INT64_MAX


def test_long_run_of_equal_primaries_stays_in_order_of_arrival(make_bench):
    bench = make_bench(block_records=10)
    bench.append([5] * 95, payload=[bytes([number]) for number in range(95)])
    bench.keep([4, 5])
    assert both(bench, lambda reads: column_of(reads.read(1, 5, 5), "address")) == [
        *range(95),
        96,
    ]
    assert bench.stream.latest(1)[1].address == 96
    assert both(bench, lambda reads: column_of(reads.read(1, limit=2), "primary")) == [4, 5]


def test_row_routed_to_another_shard_by_name_is_found_by_its_id(make_bench):
    bench = make_bench(shards=2)
    bench.append([1], secondary=1)
    bench.keep([2, 1], secondary=1, shard=0)
    assert both(bench, lambda reads: column_of(reads.read(1), "shard")) == [0, 1, 0]
    assert both(bench, lambda reads: reads.latest(1)[1].primary) == 2


@pytest.mark.parametrize("read", ["scan", "read"])
def test_first_row_routed_elsewhere_is_seen_by_whoever_sees_a_later_one(make_bench, disk, read):
    bench = make_bench(shards=2, disk=disk)
    bench.keep([0], secondary=0, shard=0)

    def commit_both() -> None:
        bench.append([5], secondary=1, shard=0)
        bench.keep([6], secondary=0, shard=0)

    disk.on("before state", commit_both)
    seen = getattr(bench.stream, read)(ids=[0, 1])
    assert sorted(column_of(seen, "primary")) == [0, 5, 6]


def test_latest_prefers_a_row_ahead_until_the_head_passes_it(make_bench):
    bench = make_bench(unit="s", disk=ReinedDisk(), ahead_max=10)
    bench.keep([NOW, NOW + 50, NOW + 1])
    assert both(bench, lambda reads: reads.latest(1)[1].primary) == NOW + 50
    bench.reopen(environment=None)
    bench.keep([NOW + 60])
    assert both(bench, lambda reads: reads.latest(1)[1].primary) == NOW + 60


def test_latest_of_ids_that_have_only_rows_ahead(make_bench):
    bench = make_bench(unit="s", disk=ReinedDisk(), ahead_max=10)
    bench.keep([NOW + 50, NOW + 90, NOW + 70], secondary=[1, 2, 2])
    latest = both(bench, lambda reads: {k: v.primary for k, v in reads.latest().items()})
    assert latest == {1: NOW + 50, 2: NOW + 90}
    assert both(bench, lambda reads: reads.earliest(2, 0)) == NOW + 70


def test_latest_does_not_look_above_committed(bench):
    bench.keep([5])
    bench.append([9, 3], secondary=[1, 2])
    assert both(bench, lambda reads: {k: v.primary for k, v in reads.latest().items()}) == {1: 5}
    assert both(bench, lambda reads: reads.latest(2)) == {}


def test_latest_shows_no_row_ahead_above_committed(make_bench):
    bench = make_bench(unit="s", disk=ReinedDisk(), ahead_max=10)
    bench.keep([NOW, NOW + 20, NOW + 30])
    bench.append([NOW + 50, NOW + 60])
    bench.append([NOW + 70], secondary=2)
    latest = both(bench, lambda reads: {k: v.primary for k, v in reads.latest().items()})
    assert latest == {1: NOW + 30}


def test_tail_below_the_start_of_the_log_is_told(bench):
    bench.append([1, 2])
    bench.append([3])
    bench.close()
    bench.start_at(2)
    bench.open()
    assert both(bench, lambda reads: column_of(reads.tail(0), "primary")) == [3]
    with bench.read_beside() as reader:
        for reads in (bench.stream, reader):
            with pytest.raises(LostRangeError, match=r"expired.*addresses \[1, 2\)"):
                list(reads.tail(0, 1))


def test_tail_beyond_committed_gives_what_there_is(bench):
    bench.keep([1])
    bench.append([2])
    assert both(bench, lambda reads: column_of(reads.tail(0, 0, 10**9), "primary")) == [1]
    assert both(bench, lambda reads: list(reads.tail(0, 1, 2))) == []


def test_envelope_comes_back_from_normal_and_late_rows_alike(bench):
    headers = [{"key": "h", "value": None}]
    bench.append([10, 5], key=[None, b""], headers=[headers, None], timestamp=[7, None])
    bench.keep([1], key=b"k")
    names = ("primary", "key", "headers", "timestamp", "timestamp_type")
    assert both(bench, lambda reads: tuple_rows(reads.read(columns=names), names)) == [
        (1, b"k", None, None, None),
        (5, b"", None, None, None),
        (10, None, headers, 7, None),
    ]


def test_headers_that_arrow_lets_pass_come_back_from_normal_and_late_rows_alike(bench):
    headers = [[None], [{"key": None, "value": b"v"}, {"key": "k", "value": None}]]
    bench.append([10, 11], headers=headers)
    bench.keep([4, 5], headers=headers)
    names = ("primary", "headers")
    rows = both(bench, lambda reads: tuple_rows(reads.read(columns=names), names))
    assert rows == list(zip([4, 5, 10, 11], headers * 2, strict=True))
    assert sorted(tuple_rows(bench.stream.scan(columns=names), names)) == rows


def tuple_rows(rows: Any, names: tuple[str, ...]) -> list[tuple]:
    return [tuple(row[name] for name in names) for row in rows_of(rows)]


def test_time_of_writing_is_kept_for_normal_and_late_rows(make_bench):
    disk = ReinedDisk()
    bench = make_bench(disk=disk)
    bench.append([10])
    disk.clock.advance(1)
    bench.keep([5])
    late, normal = both(
        bench, lambda reads: column_of(reads.read(columns=("committed_at_ms",)), "committed_at_ms")
    )
    assert late - normal == 1000


@pytest.mark.parametrize("door", ["writer", *DOORS])
def test_scan_shows_the_moment_it_began(bench, door, read_beside):
    bench.append([1])
    bench.keep([2])
    reads = bench.stream if door == "writer" else read_beside(bench)
    scan = reads.scan()
    begun = column_of([next(scan)], "primary")
    bench.keep([9])
    assert begun + column_of(scan, "primary") == [1, 2]
    assert column_of(reads.scan(), "primary") == [1, 2, 9]
    reads.close()


def test_empty_stream_answers_every_read(bench):
    assert both(bench, lambda reads: reads.read().num_rows) == 0
    assert both(bench, lambda reads: reads.latest([1, 2, 3, 4])) == {}
    assert both(bench, lambda reads: list(reads.scan(1))) == []
    assert both(bench, lambda reads: reads.earliest(None, 0)) is None


@pytest.mark.parametrize("states", ["normal", "late"])
def test_more_rows_at_once_than_constants_are_kept_for_are_read(make_bench, states):
    bench = make_bench(block_records=100_000, block_bytes=2**24)
    if states == "late":
        bench.append([10**6])
    bench.keep(range(70_000))
    late = column_of(bench.stream.read(end=10**5), "late")
    assert late == [states == "late"] * 70_000
    assert len(bench.arrivals(end=10**5)) == 70_000


def test_bounded_read_holds_a_bounded_part_of_large_zones(make_bench):
    bench = make_bench(unit="sequence")
    rows = 120 * 4096
    ids = np.random.default_rng(1).integers(-(2**31), 2**31, rows).astype(np.int32)
    payload = pa.array([b""] * rows)
    columns = {"primary": np.arange(rows), "secondary": ids, "payload": payload}
    bench.stream.append_batch(pa.table(columns))
    bench.commit()
    assert bench.stream.earliest(None, 0) == 0
    tracemalloc.start()
    try:
        assert bench.stream.earliest(None, 0) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # All zones together are 2 MiB, and would be held twice.
    assert peak < 2 * 2**20
