"""The streams that roll-ups are kept in, one a level: `<into>-hour`, `<into>-day` and so on.

The newest row of an id and window is its roll-up (rollup_record.py). A roll-up is the truth about
its window, so one that is written twice changes nothing, and no transaction has to be known again:
a batch that is done again writes what is so, whatever became of its first try.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from storage_core import (
    INT64_MIN,
    ForeignDataError,
    InvalidRequestError,
    StreamOptions,
    StreamReader,
    list_streams,
)
from streaming_jobs.common.stream_location import create_stream
from streaming_jobs.jobs.rollup.calendar import Calendar, Level
from streaming_jobs.jobs.rollup.retention_floor import floor_of, refuse_caps
from streaming_jobs.jobs.rollup.rollup_record import (
    records_of,
    rollup_schema,
    rollups_of,
    zone_and_measure_of,
)
from streaming_jobs.jobs.rollup.rollups import schema_of
from streaming_jobs.jobs.roots import options_of

# More are not named one by one: all rows of the time are read.
IDS_MAX: Final = 1000
# Fewer are not worth a task of their own.
_ROWS_A_TASK: Final = 100_000
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class RollupStreams:
    """Where roll-ups are kept.

    Attributes:
        root: The directory that holds the streams, or servers over one.
        into: What their names begin with.
        calendar: Whose windows they are of.
        measure: The field that they measure.
        has_keys: Whether they belong to keys, and not to secondaries.
        shards: How many a stream has that is made.
    """

    root: str
    into: str
    calendar: Calendar
    measure: str
    has_keys: bool
    shards: int

    def name(self, level: Level) -> str:
        """Return the name of a level's stream."""
        return f"{self.into}-{level}"

    def is_there(self, level: Level) -> bool:
        """Tell whether a level's stream is there."""
        return self.name(level) in list_streams(self.root)

    def make(self, level: Level) -> None:
        """Make a level's stream."""
        mode: Literal["dictionary", "none"] = "dictionary" if self.has_keys else "none"
        options = StreamOptions(unit="ms", shards=self.shards, key_mode=mode)
        create_stream(self.root, self.name(level), options)

    def check(self, level: Level) -> None:
        """Refuse a stream that keeps something else.

        Raises:
            InvalidRequestError: It has another kind of ids, or its windows are of another zone, or
                it measures another field.
            ForeignDataError: Its rows are no roll-ups.
        """
        name = self.name(level)
        if not self.is_there(level):
            return
        with StreamReader.open(self.root, name) as reader:
            has_keys = reader.options.key_mode == "dictionary"
            if reader.options.unit != "ms" or reader.origin or has_keys != self.has_keys:
                message = (
                    f"stream {name!r} is not one that roll-ups of this stream are kept in; name "
                    "another one with --into"
                )
                raise InvalidRequestError(message)
            refuse_caps(reader, name)
            payload = _any_payload(reader)
        if payload is None:
            return
        stored = zone_and_measure_of(payload, name)
        if stored != (self.calendar.zone, self.measure):
            message = (
                f"stream {name!r} keeps {stored[1]} by the calendar of {stored[0]}, and not "
                f"{self.measure} by that of {self.calendar.zone}; name another one with --into"
            )
            raise InvalidRequestError(message)

    def newest(self, level: Level, start: int, end: int, ids: Sequence[Any] | None) -> pa.Table:
        """Return the roll-ups kept of windows that begin in a time, of some ids or all."""
        if not self.is_there(level):
            return schema_of(pa.binary() if self.has_keys else pa.int32()).empty_table()
        name = self.name(level)
        columns = ("key" if self.has_keys else "secondary", "primary", "payload")
        whose: dict[str, Any] = {"keys" if self.has_keys else "ids": ids}
        with StreamReader.open(self.root, name) as reader:
            rows = reader.read(
                start=start, end=end - 1, latest_by="primary", columns=columns, **whose
            )
        return rollups_of(rows, name)

    def floor(self, level: Level) -> int:
        """Return the start below which roll-ups of a level have expired.

        Raises:
            InvalidRequestError: They go by a cap, so there is none.
        """
        if not self.is_there(level):
            return INT64_MIN
        name = self.name(level)
        with StreamReader.open(self.root, name) as reader:
            return floor_of(reader, name)

    def write(self, spark: SparkSession, level: Level, rollups: pa.Table) -> None:
        """Keep roll-ups, durably.

        Raises:
            ForeignDataError: The stream is gone. Created again it would lack earlier batches.
        """
        if not self.is_there(level):
            message = "the stream of roll-ups is gone: put it back, or begin with a new checkpoint"
            raise ForeignDataError(message, stream=self.name(level))
        rows = self._rows(level, rollups)
        options = {
            **options_of(self.root),
            "stream": self.name(level),
            "unit": "ms",
            "valueFormat": "avro",
            "writerSchema": rollup_schema().text,
        }
        frame = spark.createDataFrame(rows).coalesce(1 + rows.num_rows // _ROWS_A_TASK)
        frame.write.format("shardlog").options(**options).mode("append").save()

    def _rows(self, level: Level, rollups: pa.Table) -> pa.Table:
        records = records_of(rollups, level, self.calendar, self.measure)
        starts = rollups.column("start")
        columns: dict[str, Any] = {"primary": starts}
        if self.has_keys:
            columns["key"] = rollups.column("id")
        else:
            columns["secondary"] = rollups.column("id")
            columns["key"] = _labels(self.calendar, level, starts.to_numpy())
        columns |= dict(zip(records.column_names, records.columns, strict=True))
        made: pa.Table = _untyped.table(columns)
        return made


def _any_payload(reader: StreamReader) -> bytes | None:
    for batch in reader.scan(columns=["payload"]):
        if batch.num_rows:
            payload: bytes | None = batch.column("payload")[0].as_py()
            return payload or b""
    return None


def _labels(calendar: Calendar, level: Level, starts: Any) -> Any:  # noqa: ANN401 - Arrow's
    windows, places = np.unique(starts, return_inverse=True)
    names = [calendar.label(level, int(start)).encode() for start in windows]
    return _untyped.array(names, pa.binary()).take(_untyped.array(places))
