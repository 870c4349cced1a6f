"""Rows rolled up as a task of Spark's does, batch by batch, without Spark."""

import numpy as np
import pyarrow as pa
import pytest

from streaming_jobs.jobs.rollup.aggregation import Aggregation, LeftOut, primary_of, times_ms
from streaming_jobs.jobs.rollup.calendar import Calendar, years_ms

UTC = Calendar.of("UTC")
FIRST_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def aggregation(unit="ms", **options) -> Aggregation:
    return Aggregation(UTC, "hour", unit, "temperature", "secondary", **options)


def batch(values, primaries=None, ids=None, first=0, kind=None) -> pa.RecordBatch:
    count = len(values)
    primaries = [FIRST_MS + at for at in range(count)] if primaries is None else primaries
    return pa.RecordBatch.from_pydict(
        {
            "temperature": pa.array(values, kind or pa.float64()),
            "secondary": pa.array([7] * count if ids is None else ids, pa.int32()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "primary": pa.array(primaries, pa.int64()),
        }
    )


def rolled(batches, **options):
    of_task = aggregation(**options)
    rollups = list(of_task.of_batches(iter(batches)))
    if not rollups:
        return [], LeftOut()
    table, left = of_task.merged(pa.Table.from_batches(rollups))
    return table.to_pylist(), left


def test_rows_of_no_year_are_left_out_and_counted():
    edge = years_ms()[1]
    rows, left = rolled([batch([1.0, 2.0, 3.0, 4.0], [edge - 1, edge, 2**63 - 1, -(2**63)])])
    assert [row["sum"] for row in rows] == [1.0]
    assert left == LeftOut(timeless=3)


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_primaries_of_any_unit_are_times(unit, factor):
    seconds = FIRST_MS // 1000
    (row,), _ = rolled([batch([1.0], [seconds * factor])], unit=unit)
    assert row["first_time"] == FIRST_MS
    assert row["start"] == FIRST_MS // HOUR_MS * HOUR_MS


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_primaries_of_a_range_of_time_are_those_whose_times_lie_in_it(unit):
    start, end = FIRST_MS + 1, FIRST_MS + 2001
    first, last = primary_of(start, unit), primary_of(end, unit) - 1
    times, within = times_ms(np.array([first - 1, first, last, last + 1]), unit)
    assert within.all()
    assert [start <= time < end for time in times.tolist()] == [False, True, True, False]


def test_many_rollups_of_a_task_are_merged_as_they_come():
    batches = [
        batch([1.0] * 4, ids=[n % 7 for n in range(first, first + 4)], first=first)
        for first in range(0, 40, 4)
    ]
    rows, _ = rolled(batches, waiting_max=3)
    assert sorted((row["id"], row["count"]) for row in rows) == [
        (id_, len(range(id_, 40, 7))) for id_ in range(7)
    ]
