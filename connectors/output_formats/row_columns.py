"""The columns of rows as `read`, `tail` and `latest` show them: those that SQL has of them.

Beside `primary`, which is a number, stands `time`, where the stream counts time. Which columns are
shown unless others are asked for follows from the stream and its schemas, never from its rows: key,
headers and times of a topic's stream, and the id of a schema where the stream has any.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core import UNITS_PER_SECOND, InvalidRequestError, StreamReader, Unit
from storage_core.platform.name_suggestions import unknown_names
from storage_core.sql.stream_columns import TIME, readable_columns, row_columns
from storage_core.sql.type_unification import time_bounds

_BROUGHT: Final = frozenset(("key", "headers", "timestamp", "timestamp_type"))
_untyped: Any = pa  # the stubs want to know what an array holds


def default_columns(reader: StreamReader) -> list[str]:
    """Return the columns of a stream that are shown unless others are asked for."""
    has_keys = reader.options.key_mode == "dictionary"
    left_out = set() if reader.origin is not None else set(_BROUGHT)
    left_out -= {"key"} if has_keys else set()
    left_out |= set() if reader.schemas() else {"schema_id"}
    names = [name for name in row_columns(has_keys=has_keys).names if name not in left_out]
    if reader.options.unit != "sequence":
        names.insert(names.index("primary") + 1, TIME)
    return names


def chosen_columns(reader: StreamReader, named: list[str] | None) -> list[str]:
    """Return the columns that are shown: those named, or those of the stream.

    Raises:
        InvalidRequestError: There is no column of a name.
    """
    if named is None:
        return default_columns(reader)
    readable = readable_columns(reader.options.unit)
    unknown = [name for name in named if name not in readable]
    if unknown:
        raise InvalidRequestError(unknown_names("columns", unknown, readable))
    return named


def stored_columns(columns: Sequence[str], unit: Unit) -> list[str]:
    """Return which columns of the log rows are shown by."""
    if unit == "sequence":
        return list(columns)
    return list(dict.fromkeys("primary" if name == TIME else name for name in columns))


def _times(primaries: Any, unit: Unit) -> Any:  # noqa: ANN401 - arrays
    """Return primaries as times of microseconds; null where there is no such time."""
    numbers, most = primaries.to_numpy(), time_bounds(unit)
    is_time = (numbers >= -most) & (numbers <= most)
    units = np.where(is_time, numbers, 0)
    per_us = UNITS_PER_SECOND[unit] // 10**6
    micros = units // per_us if per_us else units * (10**6 // UNITS_PER_SECOND[unit])
    return _untyped.array(micros, mask=~is_time).cast(_untyped.timestamp("us", "UTC"))


def with_time(rows: pa.RecordBatch, unit: Unit) -> pa.RecordBatch:
    """Return rows with the column `time`, which is their primary as a time."""
    if unit == "sequence":
        return rows
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns[TIME] = _times(columns["primary"], unit)
    batch: pa.RecordBatch = _untyped.RecordBatch.from_pydict(columns)
    return batch
