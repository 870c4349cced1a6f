"""What earlier batches had of some windows, read from the log: rows below a batch's begins.

Windows that follow on each other are read as one range of primaries, so that zones and the index
skip all other blocks; ids are named where they are few. Rows that retention has taken, or is
about to, would be missing silently, so windows that begin below a shard's floor are kept
apart: they cannot be computed any more. What a cap takes has no floor, it goes as it came, so a
stream that has one is not rolled up.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from storage_core import StreamReader
from streaming_jobs.jobs.rollup.aggregation import Aggregation, primary_of
from streaming_jobs.jobs.rollup.retention_floor import floor_of
from streaming_jobs.jobs.rollup.rollup_streams import IDS_MAX
from streaming_jobs.jobs.rollup.rollups import of_windows, schema_of
from streaming_jobs.jobs.roots import options_of

# Nearer ones are read as one: each range is a plan of its own, which takes Spark longer than to
# read a million rows.
_RANGES_MAX: Final = 4
_EARLIEST: Final = -2

Times = npt.NDArray[np.int64]
Options = Mapping[str, str]
Array = Any
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class OlderRows:
    """The rows of a stream that lie below some offsets.

    Attributes:
        root: The directory that holds the streams, or servers over one.
        stream: The stream.
        options: How its values are read.
        aggregation: What is made of its rows.
    """

    root: str
    stream: str
    options: Options
    aggregation: Aggregation

    def rolled_up(
        self, spark: SparkSession, begins: Mapping[int, int], windows: Times, ids: Array
    ) -> pa.Table:
        """Return the roll-ups of windows from rows below each shard's begin.

        Args:
            spark: The session.
            begins: For each shard where the rows end.
            windows: Starts, in order.
            ids: An Arrow array of those wanted, or None for all. Others may come along.
        """
        bounds = self._bounds(begins)
        if bounds is None or not len(windows):
            return schema_of(self.aggregation.ids).empty_table()
        calendar, level = self.aggregation.calendar, self.aggregation.level
        frames = [
            self._frame(spark, bounds, span, ids)
            for span in ranges_of(windows, calendar.ends(level, windows))
        ]
        rows: DataFrame = reduce(DataFrame.unionAll, frames)
        rollups, _ = self.aggregation.of_frame(rows)
        # IMPORTANT: windows between are in memory perhaps, or read by another range.
        return of_windows(rollups, windows)

    def floor(self) -> int:
        """Return the primary below which rows of some shard have expired.

        Raises:
            InvalidRequestError: Rows go by a cap, so there is none.
        """
        with StreamReader.open(self.root, self.stream) as reader:
            return floor_of(reader, self.stream)

    def _bounds(self, begins: Mapping[int, int]) -> Options | None:
        """Return the options that bound a read, None where nothing lies below the begins."""
        starting, ending = {}, {}
        with StreamReader.open(self.root, self.stream) as reader:
            for shard in reader.committed():
                end = begins.get(shard, 0)
                start, _ = reader.horizon(shard)
                ending[str(shard)] = end
                # Of a shard that has nothing there the range is empty.
                starting[str(shard)] = _EARLIEST if start < end else end
        if _EARLIEST not in starting.values():
            return None
        return {
            "startingOffsets": json.dumps({self.stream: starting}),
            "endingOffsets": json.dumps({self.stream: ending}),
        }

    def _frame(
        self, spark: SparkSession, bounds: Options, span: tuple[int, int], ids: Array
    ) -> DataFrame:
        unit = self.aggregation.unit
        reader = spark.read.format("shardlog").options(**self.options).options(**bounds)
        reader = reader.options(**options_of(self.root)).option("stream", self.stream)
        reader = reader.option("startPrimary", str(primary_of(span[0], unit)))
        reader = reader.option("endPrimary", str(primary_of(span[1], unit) - 1))
        reader = reader.option("columns", ",".join(self.aggregation.columns))
        if ids is not None and len(ids) <= IDS_MAX:
            name = "keys" if self.aggregation.whose == "key" else "ids"
            reader = reader.option(name, _named(ids.to_pylist()))
        return reader.load()


def ranges_of(starts: Times, ends: Times, most: int = _RANGES_MAX) -> list[tuple[int, int]]:
    """Return the ranges, each with an exclusive end, that cover windows in order.

    Windows apart are in ranges of their own, but for the nearest where that would be too many.
    """
    gaps = starts[1:] - ends[:-1]
    cuts = np.flatnonzero(gaps > 0)
    if len(cuts) >= most:
        widest = np.argsort(gaps[cuts], kind="stable")[len(cuts) - most + 1 :]
        cuts = np.sort(cuts[widest])
    firsts = np.concatenate(([0], cuts + 1))
    lasts = np.concatenate((cuts, [len(starts) - 1]))
    return [
        (int(starts[first]), int(ends[last])) for first, last in zip(firsts, lasts, strict=True)
    ]


def _named(ids: Sequence[int | bytes | None]) -> str:
    if all(isinstance(one, int) for one in ids):
        return json.dumps(ids)
    return json.dumps([{"hex": one.hex()} if isinstance(one, bytes) else None for one in ids])
