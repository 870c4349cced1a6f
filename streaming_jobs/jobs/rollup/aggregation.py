"""Rows of a stream rolled up where they are read, in Spark's tasks: few rows leave them.

    value, secondary or key, partition, offset, primary   ->   rollups.py's columns

and for each task that left rows out one row more, without a start: `count` rows had no value (null
or no number), `min_time` rows lay in no year of the calendar. Nothing is done row by row.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from storage_core import INT64_MAX, INT64_MIN, UNITS_PER_SECOND, Unit
from streaming_jobs.common.spark_features import map_in_arrow
from streaming_jobs.jobs.rollup.calendar import Calendar, Level, years_ms
from streaming_jobs.jobs.rollup.rollups import (
    COLUMNS,
    Measurements,
    merge,
    roll_up,
    schema_of,
    together,
)

# Once merged they may be more; then twice as many wait.
_WAITING_MAX: Final = 2**17
_SPARK_TYPES: Final = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.binary(): "binary",
}

Array = Any
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows that nothing was made of.

    Attributes:
        valueless: Rows whose value is null or no number.
        timeless: Rows of a time that lies in none of the calendar's years.
    """

    valueless: int = 0
    timeless: int = 0

    def __add__(self, other: "LeftOut") -> "LeftOut":
        return LeftOut(self.valueless + other.valueless, self.timeless + other.timeless)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How rows become roll-ups; travels to the tasks.

    Attributes:
        calendar: Whose windows.
        level: Which of them.
        unit: What primaries count.
        value: The column that is measured.
        whose: The column that says whose a row is, `secondary` or `key`.
        waiting_max: How many roll-ups wait in a task to be merged.
    """

    calendar: Calendar
    level: Level
    unit: Unit
    value: str
    whose: str
    waiting_max: int = _WAITING_MAX

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that are needed."""
        return (self.value, self.whose, "partition", "offset", "primary")

    @property
    def ids(self) -> pa.DataType:
        """The type of ids."""
        return pa.binary() if self.whose == "key" else pa.int32()

    def of_frame(self, frame: DataFrame) -> tuple[pa.Table, LeftOut]:
        """Return the roll-ups of a frame, and what was left out."""
        fields = [f"id {_SPARK_TYPES[self.ids]}"]
        fields += [f"{name} {_SPARK_TYPES[kind]}" for name, kind in COLUMNS.items()]
        rows = map_in_arrow(frame.select(*self.columns), self.of_batches, ", ".join(fields))
        return self.merged(rows.toArrow())

    def merged(self, rollups: pa.Table) -> tuple[pa.Table, LeftOut]:
        """Return the roll-ups of tasks, merged."""
        rows: Any = rollups.cast(schema_of(self.ids))
        has_start = _compute.is_valid(rows.column("start"))
        out = rows.filter(_compute.invert(has_start))
        left = LeftOut(
            _compute.sum(out.column("count")).as_py() or 0,
            _compute.sum(out.column("min_time")).as_py() or 0,
        )
        return merge(rows.filter(has_start)), left

    def of_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the roll-ups of a task's rows; in the task."""
        left, waiting, rows, limit = LeftOut(), [], 0, self.waiting_max
        for batch in batches:
            rollups, out = self._of_batch(batch)
            left += out
            waiting.append(rollups)
            rows += rollups.num_rows
            if rows >= limit:
                waiting = [merge(together(waiting))]
                rows = waiting[0].num_rows
                limit = max(self.waiting_max, 2 * rows)
        if waiting:
            yield from merge(together(waiting)).to_batches()
        if left != LeftOut():
            yield self._left_out_row(left)

    def _of_batch(self, batch: pa.RecordBatch) -> tuple[pa.Table, LeftOut]:
        values = batch.column(self.value).cast(pa.float64(), safe=False)
        numbers: Any = values.fill_null(np.nan).to_numpy(zero_copy_only=False)
        times, is_within = times_ms(batch.column("primary").to_numpy(), self.unit)
        has_value = ~np.isnan(numbers)
        left = LeftOut(
            int(len(numbers) - np.count_nonzero(has_value)),
            int(np.count_nonzero(has_value & ~is_within)),
        )
        ids = batch.column(self.whose)
        shards, offsets = (batch.column(name).to_numpy() for name in ("partition", "offset"))
        if left != LeftOut():
            taken = has_value & is_within
            numbers, times, shards, offsets = (
                column[taken] for column in (numbers, times, shards, offsets)
            )
            ids = ids.filter(_untyped.array(taken))
        starts = self.calendar.starts(self.level, times)
        return roll_up(Measurements(ids, starts, times, numbers, shards, offsets)), left

    def _left_out_row(self, left: LeftOut) -> pa.RecordBatch:
        schema = schema_of(self.ids)
        row = dict.fromkeys(schema.names) | {"count": left.valueless, "min_time": left.timeless}
        (batch,) = _untyped.Table.from_pylist([row], schema=schema).to_batches()
        return batch  # type: ignore[no-any-return]  # the stubs know no batches of a table


def times_ms(
    primaries: npt.NDArray[np.int64], unit: Unit
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return primaries as milliseconds, and which lie in the calendar's years; others are 0."""
    first, end = (primary_of(time, unit) for time in years_ms())
    is_within = (primaries >= first) & (primaries < end)
    if not is_within.all():
        primaries = np.where(is_within, primaries, 0)
    per_second = UNITS_PER_SECOND[unit]
    if per_second < 1000:  # noqa: PLR2004 - a millisecond's
        return primaries * (1000 // per_second), is_within
    return primaries // (per_second // 1000), is_within


def primary_of(time: int, unit: Unit) -> int:
    """Return the least primary that is not before a time in milliseconds."""
    return min(max(-(-time * UNITS_PER_SECOND[unit] // 1000), INT64_MIN), INT64_MAX)
