"""The record that keeps a roll-up: schema `rollups.Rollup`, a row of a stream for each.

    primary            the window's start, in milliseconds
    secondary or key   of whom
    key                where rows have a secondary: the window as its calendar shows it, 2026-03-29
    value              an Avro single object

A window that is rolled up again gets a row more, and the newest one counts: `latest_by="primary"`
reads it, and `latest_by="key"` where rows have a secondary. For others the schema is
`schemas/avro/rollups/rollup.v1.avsc`; a test holds the two equal.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage_core import ForeignDataError
from storage_core.avro import AvroSchema, body_starts, decode_batch, frame_of
from streaming_jobs.jobs.rollup.calendar import LEVELS, Calendar, Level
from streaming_jobs.jobs.rollup.rollups import COLUMNS, schema_of

_MOMENT: Final = {"type": "long", "logicalType": "timestamp-millis"}
_EARLIEST: Final = "Of equal ones the earliest."
_BY_TIME: Final = "By time; of one millisecond by shard, then offset."
_FIELDS: Final[list[dict[str, Any]]] = [
    {"name": "id", "type": ["null", "int"], "default": None, "doc": "The secondary."},
    {
        "name": "id_key",
        "type": ["null", "bytes"],
        "default": None,
        "doc": "The key, where rows belong to keys.",
    },
    {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": list(LEVELS)}},
    {"name": "window_start", "type": _MOMENT},
    {"name": "window_end", "type": _MOMENT, "doc": "Exclusive."},
    {"name": "zone", "type": "string", "doc": "Whose calendar the window is of."},
    {"name": "measure", "type": "string", "doc": "The field that was measured."},
    {"name": "count", "type": "long"},
    {"name": "sum", "type": "double"},
    {"name": "sum_sq", "type": "double", "doc": "The sum of the squares."},
    {"name": "min", "type": "double"},
    {"name": "min_time", "type": _MOMENT, "doc": _EARLIEST},
    {"name": "max", "type": "double"},
    {"name": "max_time", "type": _MOMENT, "doc": _EARLIEST},
    {"name": "first", "type": "double", "doc": _BY_TIME},
    {"name": "first_time", "type": _MOMENT},
    {"name": "last", "type": "double", "doc": "As first."},
    {"name": "last_time", "type": _MOMENT},
]
SCHEMA: Final = {
    "type": "record",
    "name": "Rollup",
    "namespace": "rollups",
    "doc": "What the measurements of an id come to in a window. Those of parts of a window merge "
    "into the window's.",
    "fields": _FIELDS,
}
# What of a roll-up the record does not keep: windows that are merged later share no moment.
_PLACES: Final = ("first_shard", "first_offset", "last_shard", "last_offset")
_MEASURED: Final = tuple(name for name in COLUMNS if name not in (*_PLACES, "start"))
_TIME: Final = pa.timestamp("ms", tz="UTC")

Array = Any
_untyped: Any = pa
_compute: Any = pc


@lru_cache(maxsize=1)
def rollup_schema() -> AvroSchema:
    """Return the schema of the records."""
    return AvroSchema.parse(json.dumps(SCHEMA))


def records_of(rollups: pa.Table, level: Level, calendar: Calendar, measure: str) -> pa.Table:
    """Return the fields of the records that keep roll-ups of a level."""
    ids, starts = rollups.column("id"), rollups.column("start").to_numpy()
    ends = calendar.ends(level, starts)
    count = rollups.num_rows
    no_ids: Any = pa.nulls
    has_keys = pa.types.is_binary(ids.type)
    columns: dict[str, Any] = {
        "id": no_ids(count, pa.int32()) if has_keys else ids,
        "id_key": ids if has_keys else no_ids(count, pa.binary()),
        "level": _untyped.repeat(level, count),
        "window_start": _moments(starts),
        "window_end": _moments(ends),
        "zone": _untyped.repeat(calendar.zone, count),
        "measure": _untyped.repeat(measure, count),
    }
    for name in _MEASURED:
        column = rollups.column(name)
        columns[name] = _moments(column.to_numpy()) if name.endswith("_time") else column
    made: pa.Table = _untyped.table(columns)
    return made


def rollups_of(rows: pa.Table, stream: str) -> pa.Table:
    """Return what the records of rows with columns primary, payload, and secondary or key keep.

    Raises:
        ForeignDataError: A row holds something else.
    """
    whose = "key" if "key" in rows.column_names else "secondary"
    payloads: Any = rows.column("payload").combine_chunks()
    bodies: Any = payloads
    if isinstance(payloads, pa.ChunkedArray):
        bodies = _untyped.concat_arrays(payloads.chunks) if payloads.num_chunks else None
    ids = rows.column(whose)
    if bodies is None or not len(bodies):
        return schema_of(ids.type).empty_table()
    decoded = _decoded(bodies, _MEASURED, stream)
    made: dict[str, Any] = {"id": ids, "start": rows.column("primary")}
    for name in _MEASURED:
        made[name] = decoded.column(name).cast(COLUMNS[name])
    for name in _PLACES:
        made[name] = _untyped.array(np.zeros(len(bodies), np.int64)).cast(COLUMNS[name])
    schema = schema_of(ids.type)
    table: pa.Table = _untyped.table({name: made[name] for name in schema.names}, schema=schema)
    return table


def zone_and_measure_of(payload: bytes, stream: str) -> tuple[str, str]:
    """Return the zone and the measure that a record names.

    Raises:
        ForeignDataError: It is no roll-up.
    """
    body = _untyped.array([payload], pa.binary())
    (row,) = _decoded(body, ("zone", "measure"), stream).to_pylist()
    return row["zone"], row["measure"]


def _decoded(bodies: Array, columns: Sequence[str], stream: str) -> pa.Table:
    _refuse_others(bodies, stream)
    decoded = decode_batch(bodies, rollup_schema(), columns=columns, starts=body_starts(bodies))
    if decoded.faults:
        message = f"a row is no roll-up: {decoded.faults[0].reason}"
        raise ForeignDataError(message, stream=stream)
    return decoded.table


def _refuse_others(bodies: Array, stream: str) -> None:
    frame = frame_of(rollup_schema(), None)
    begins = _compute.binary_slice(bodies, 0, len(frame))
    others = _compute.not_equal(begins, pa.scalar(frame, pa.binary()))
    if bodies.null_count or _compute.any(others).as_py():
        message = "the stream has rows that are no roll-ups; name another one with --into"
        raise ForeignDataError(message, stream=stream)


def _moments(times: Array) -> Array:
    return _untyped.array(times, pa.int64()).view(_TIME)
