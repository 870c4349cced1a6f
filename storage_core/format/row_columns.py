"""The columns of a row: their names, types and orders. Whoever lists columns takes them from here.

A row is in blocks, in ordered copies, in parts, in exports and in answers; each leaves out columns,
or has its own order, but calls and types a column alike.
"""

from functools import cache
from typing import Final

import pyarrow as pa

HEADERS_TYPE: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
# What a row may bring beside its own; null where it has none.
ENVELOPE: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "headers": HEADERS_TYPE,
    "timestamp": pa.int64(),
    "timestamp_type": pa.int8(),
}
# A row's schema, by number: blocks, parts and exports have it, and no answer has.
SCHEMA: Final = "schema"
SCHEMA_TYPE: Final = pa.int32()
COMMITTED: Final = "committed_at_ms"
_READABLE: Final[dict[str, pa.DataType]] = {
    "shard": pa.int32(),
    "secondary": pa.int32(),
    "primary": pa.int64(),
    "version": pa.uint16(),
    "address": pa.int64(),
    "late": pa.bool_(),
    "payload": pa.binary(),
    "state": pa.uint8(),
    COMMITTED: pa.int64(),
    **ENVELOPE,
    "schema_id": SCHEMA_TYPE,
    "schema_fingerprint": pa.binary(),
}
TYPES: Final[dict[str, pa.DataType]] = {**_READABLE, SCHEMA: SCHEMA_TYPE}
# What may be asked for, in this order.
COLUMNS: Final = tuple(_READABLE)
# What answers have if no columns are asked for.
READ_COLUMNS: Final = ("shard", "secondary", "primary", "version", "address", "late", "payload")
TAIL_COLUMNS: Final = (*READ_COLUMNS, "state")
# What tells rows of an id apart, and how answers, parts and copies are sorted.
SORT_COLUMNS: Final = ("secondary", "primary", "address")
# What parts and exports have of a row, in this order.
STORED: Final = (
    *("shard", "secondary", "primary", "address", "version", "state"),
    *(*ENVELOPE, "payload", "schema_id", "schema_fingerprint"),
)


@cache
def schema_of(columns: tuple[str, ...]) -> pa.Schema:
    """Return the schema of these columns."""
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])
