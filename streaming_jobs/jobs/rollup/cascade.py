"""The cascade of a batch: windows that rows came for, then the windows above these, level by level.

1. Roll up the batch's rows by id and window of the lowest level.
2. Take what earlier batches had of the same windows: from memory, or from the rows in the log.
3. Merge the two: the truth about each id and window that a row came for, as of the batch's end.
4. For each level above merge the newest roll-ups of the level below, of the same windows only;
   those stay as they are kept of which retention may have taken some.
5. Keep each level's in its stream, side by side; then write the files of the periods that changed.

Nothing is added to stored roll-ups, each is computed again, so a batch that stops after any step
is done again from step 1 with the same result. A late row changes its windows and no others.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from storage_core import INT64_MIN
from streaming_jobs.jobs.batch_span import BatchSpan, span_of
from streaming_jobs.jobs.rollup.aggregation import LeftOut, primary_of
from streaming_jobs.jobs.rollup.calendar import Calendar, Level, years_ms
from streaming_jobs.jobs.rollup.older_rows import OlderRows, ranges_of
from streaming_jobs.jobs.rollup.rollup_files import RollupFiles
from streaming_jobs.jobs.rollup.rollup_streams import IDS_MAX, RollupStreams
from streaming_jobs.jobs.rollup.rollups import (
    merge,
    newest,
    of_windows,
    only,
    together,
    with_starts,
)
from streaming_jobs.jobs.rollup.window_cache import WindowCache

_LOG: Final = logging.getLogger("shardlog")
_ABOVE: Final[Mapping[Level, Level]] = {"hour": "day", "day": "month", "month": "year"}
_ALL: Final = "all"

Times = npt.NDArray[np.int64]
_untyped: Any = pa
_compute: Any = pc


@dataclass(slots=True)
class Cascade:
    """Rolls up a query's batches, one after the other, in the driver.

    Attributes:
        checkpoint: The query's.
        rows: The rows of the stream.
        streams: Where roll-ups are kept.
        levels: Which, from below, without one left out between.
        files: Where they are written as Parquet too, if anywhere.
    """

    checkpoint: str
    rows: OlderRows
    streams: RollupStreams
    levels: Sequence[Level]
    files: RollupFiles | None = None
    _cache: WindowCache = field(default_factory=WindowCache)
    _below: dict[Level, WindowCache] = field(default_factory=dict)
    _reached: Mapping[int, int] | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Roll up a batch."""
        spark = batch.sparkSession
        span = span_of(spark, self.checkpoint, self.rows.stream, number)
        reached, self._reached = self._reached, None
        if reached != span.begins:
            # What is kept in memory is as of another offset.
            self._cache.clear()
        batch_rollups, left_out = self.rows.aggregation.of_frame(batch)
        changed, expired = self._lowest(spark, span, batch_rollups)
        _tell(number, left_out, expired)
        if changed.num_rows:
            self._raise(spark, changed, number)
        self._reached = span.ends

    def _lowest(
        self, spark: SparkSession, span: BatchSpan, batch_rollups: pa.Table
    ) -> tuple[pa.Table, int]:
        """Return the roll-ups of windows that rows came for, and how many cannot be computed."""
        touched = [int(start) for start in np.unique(batch_rollups.column("start").to_numpy())]
        unknown = {start for start in touched if self._cache.get(start) is None}
        pool = [self._cache.get(start) for start in touched if start not in unknown]
        whole = self._cache.wanted(touched) & unknown
        for windows, ids in (
            (sorted(whole), None),
            (sorted(unknown - whole), _distinct(batch_rollups.column("id"))),
        ):
            starts = np.array(windows, np.int64)
            pool.append(self.rows.rolled_up(spark, span.begins, starts, ids))
        # IMPORTANT: the floor is asked for once the rows are read. It never falls, so what lies
        # above it now was all there then.
        gone = self._expired(unknown) if unknown else set()
        taken = batch_rollups if not gone else _outside(batch_rollups, gone)
        merged = merge(together([*(one for one in pool if one is not None), taken]))
        for start in touched:
            if start not in gone and (start not in unknown or start in whole):
                self._cache.put(start, of_windows(merged, np.array([start])))
        return only(merged, taken), batch_rollups.num_rows - taken.num_rows

    def _expired(self, windows: Iterable[int]) -> set[int]:
        floor, unit = self.rows.floor(), self.rows.aggregation.unit
        return {start for start in windows if primary_of(start, unit) < floor}

    def _raise(self, spark: SparkSession, changed: pa.Table, number: int) -> None:
        below: dict[Level, pa.Table] = {self.levels[0]: changed}
        periods: dict[Level, pa.Table] = {}
        for level in self.levels:
            above = _ABOVE.get(level)
            is_raised = above is not None and above in self.levels
            if is_raised or self.files is not None:
                periods[level], gone = self._newest(level, below[level])
                _tell_cut_off(number, self.streams.name(level), gone)
            if above is not None and is_raised:
                below[above] = self._merged(above, periods[level], below[level])
        # Each waits for Spark most of the time. If one fails the batch comes again, and writes all.
        with ThreadPoolExecutor(len(self.levels)) as writers:
            written = [
                writers.submit(self.streams.write, spark, level, below[level])
                for level in self.levels
                if below[level].num_rows
            ]
        for write in written:
            write.result()
        if self.files is not None:
            for level in self.levels:
                self._write_files(self.files, level, periods[level])

    def _merged(self, level: Level, children: pa.Table, changed: pa.Table) -> pa.Table:
        """Return the roll-ups of windows by those of the level below, where some changed."""
        raised, wanted = (
            with_starts(rollups, self._calendar.starts(level, rollups.column("start").to_numpy()))
            for rollups in (children, changed)
        )
        return only(merge(raised), wanted)

    def _newest(self, level: Level, changed: pa.Table) -> tuple[pa.Table, int]:
        """Return the newest roll-ups of the periods in which some changed: of these ids, or all.

        Periods that have lost some are left out, and their changed roll-ups counted.
        """
        cache = self._below.setdefault(level, WindowCache())
        starts, ends = self._periods(level, changed.column("start").to_numpy())
        first = np.unique(starts, return_index=True)[1]
        spans = dict(zip(starts[first].tolist(), ends[first].tolist(), strict=True))
        unknown = {start for start in spans if cache.get(start) is None}
        whole = unknown if self.files is not None else cache.wanted(spans) & unknown
        pool = [table for table in map(cache.get, spans) if table is not None]
        ids = _distinct(changed.column("id"))
        named = ids.to_pylist() if len(ids) <= IDS_MAX else None
        for windows, of_ids in ((whole, None), (unknown - whole, named)):
            ordered = np.array(sorted(windows), np.int64)
            their_ends = np.array([spans[start] for start in sorted(windows)], np.int64)
            if len(ordered):
                pool += [
                    self.streams.newest(level, begin, end, of_ids)
                    for begin, end in ranges_of(ordered, their_ends, len(ordered))
                ]
        # IMPORTANT: asked once they are read, as in `_lowest`.
        floor = self.streams.floor(level) if unknown else INT64_MIN
        gone = {start for start in unknown if start < floor}
        rollups = newest(together([*pool, changed]))
        periods, _ = self._periods(level, rollups.column("start").to_numpy())
        if gone:
            is_whole = ~np.isin(periods, sorted(gone))
            rollups, periods = rollups.filter(_untyped.array(is_whole)), periods[is_whole]
        for start in spans:
            if start not in gone and (start not in unknown or start in whole):
                cache.put(start, rollups.filter(_untyped.array(periods == start)))
        return rollups, int(np.count_nonzero(np.isin(starts, sorted(gone))))

    def _periods(self, level: Level, starts: Times) -> tuple[Times, Times]:
        """Return the window of the level above for each, as start and end; of years all time."""
        above = _ABOVE.get(level)
        if above is None:
            first, end = years_ms()
            return np.full_like(starts, first), np.full_like(starts, end)
        begins = self._calendar.starts(above, starts)
        return begins, self._calendar.ends(above, begins)

    def _write_files(self, files: RollupFiles, level: Level, rollups: pa.Table) -> None:
        periods, _ = self._periods(level, rollups.column("start").to_numpy())
        for start in np.unique(periods):
            above = _ABOVE.get(level)
            name = _ALL if above is None else self._calendar.label(above, int(start))
            files.write(level, name, rollups.filter(_untyped.array(periods == start)))

    @property
    def _calendar(self) -> Calendar:
        return self.streams.calendar


def _distinct(ids: Any) -> Any:  # noqa: ANN401 - Arrow's
    return _compute.unique(ids)


def _outside(rollups: pa.Table, windows: set[int]) -> pa.Table:
    starts = rollups.column("start").to_numpy()
    return rollups.filter(_untyped.array(~np.isin(starts, sorted(windows))))


def _tell(number: int, left: LeftOut, expired: int) -> None:
    """Warn of what a batch had that came to nothing."""
    if left.valueless:
        _LOG.warning("batch %d: %d rows have no value to measure", number, left.valueless)
    if left.timeless:
        _LOG.warning(
            "batch %d: %d rows lie in no year of the calendar, %s", number, left.timeless, _years()
        )
    if expired:
        _LOG.warning(
            "batch %d: %d windows of ids keep their roll-ups: retention has removed rows of "
            "them, so that they cannot be rolled up again",
            number,
            expired,
        )


def _tell_cut_off(number: int, stream: str, changed: int) -> None:
    if changed:
        _LOG.warning(
            "batch %d: %d roll-ups of stream %r change nothing above them, nor files: retention "
            "has removed others that the windows above are made of, so these keep their roll-ups",
            number,
            changed,
            stream,
        )


def _years() -> str:
    first, end = (np.datetime64(time, "ms").astype("datetime64[Y]") for time in years_ms())
    return f"{first} to {end - 1}"
