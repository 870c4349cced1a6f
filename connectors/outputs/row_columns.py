"""The columns of rows as `read`, `tail` and `latest` show them: those that SQL has of them.

Beside `primary`, which is a number, stands `time`, where the stream counts time. Which columns are
shown unless others are asked for follows from the stream and its schemas, never from its rows: key,
headers and times of a topic's stream, and the id of a schema where the stream has any.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from storage_core import StreamReader, Unit
from storage_core.cold.stream_columns import row_columns

TIME: Final = "time"
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


def stored_columns(columns: Sequence[str], unit: Unit) -> list[str]:
    """Return which columns of the log rows are shown by."""
    if unit == "sequence":
        return list(columns)
    return list(dict.fromkeys("primary" if name == TIME else name for name in columns))


def with_time(rows: pa.RecordBatch, unit: Unit) -> pa.RecordBatch:
    """Return rows with the column `time`, which is their primary as a time."""
    if unit == "sequence":
        return rows
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns[TIME] = columns["primary"].cast(_untyped.timestamp(unit, "UTC"))
    found: pa.RecordBatch = _untyped.RecordBatch.from_pydict(columns)
    return found
