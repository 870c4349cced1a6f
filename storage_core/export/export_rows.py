"""The rows of an export, the same for all file formats: the stored columns, by address.

Columns `shard`, `secondary` (or none, where rows belong to keys), `primary`, `address`, `version`,
`state`, `key`, `headers`, `timestamp`, `timestamp_type`, `payload` (all of its bytes) and `schema`
(a number in the manifest, null for none).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.format.row_columns import SCHEMA, STORED, schema_of
from storage_core.format.schema_entry import SchemaEntry
from storage_core.parts.part_rows import numbered, numbers_of
from storage_core.parts.typed_columns import Writer
from storage_core.read.request import ReadRequest
from storage_core.read.shard_reader import ShardReader

RANGE_ROWS: Final = 131_072
RANGE_BYTES: Final = 64 * 2**20
# The number of a schema that the manifest does not have.
_UNKNOWN_SCHEMA: Final = -2
_COLUMNS: Final = (*(name for name in STORED if not name.startswith("schema")), SCHEMA)
_untyped: Any = pa
SchemaNumbers = dict[tuple[int, bytes], int]


@dataclass(frozen=True, slots=True)
class ExportContext:
    """What a file format needs to know of an export.

    Attributes:
        writers: The schemas, by number.
        has_keys: Whether rows have keys, not secondaries.
        bytes_max: The memory limit for the rows of a file.
    """

    writers: Sequence[Writer]
    has_keys: bool
    bytes_max: int


def row_schema(*, has_keys: bool) -> pa.Schema:
    """Return the columns of exported rows."""
    return schema_of(tuple(name for name in _COLUMNS if not (has_keys and name == "secondary")))


def schema_numbers(entries: Sequence[SchemaEntry]) -> SchemaNumbers:
    """Return the numbers of a manifest's schemas; any other schema has an unused number."""
    return defaultdict(lambda: _UNKNOWN_SCHEMA, numbers_of(entries))


def row_batches(
    shard: ShardReader, request: ReadRequest, numbers: SchemaNumbers, rows_max: int
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Yield the rows of a request in order of address, some at a time, with their end.

    Each of the batches has the columns of `stored_columns`, numbered.
    """
    batches: list[pa.RecordBatch] = []
    for batch in shard.scan(request):
        if not batch.num_rows:
            continue
        batches.append(numbered(batch, numbers))
        is_full = sum(batch.num_rows for batch in batches) >= rows_max
        if is_full or sum(batch.nbytes for batch in batches) >= RANGE_BYTES:
            yield _end_of(batches), batches
            batches = []
    if batches:
        yield _end_of(batches), batches


def to_export_rows(batches: Sequence[pa.RecordBatch], *, has_keys: bool) -> pa.Table:
    """Return stored rows as exported rows."""
    return with_all_columns(_untyped.Table.from_batches(batches), has_keys=has_keys)


def with_all_columns(rows: pa.Table, *, has_keys: bool) -> pa.Table:
    """Return rows with exactly the columns of exported rows; missing ones are null."""
    columns: list[Any] = []
    schema = row_schema(has_keys=has_keys)
    for field in schema:
        if field.name in rows.schema.names:
            columns.append(rows.column(field.name).cast(field.type))
        else:
            columns.append(_untyped.nulls(rows.num_rows, field.type))
    table: pa.Table = _untyped.Table.from_arrays(columns, schema=schema)
    return table


def sorted_by_address(tables: Sequence[pa.Table], *, has_keys: bool) -> pa.Table:
    """Return the rows of several files as one table in order of address."""
    empty = row_schema(has_keys=has_keys).empty_table()
    rows: pa.Table = _untyped.concat_tables([empty, *tables]).combine_chunks()
    addresses = rows.column("address").to_numpy()
    if not bool((addresses[1:] > addresses[:-1]).all()):
        rows = rows.take(_untyped.array(np.argsort(addresses, kind="stable")))
    return rows


def _end_of(batches: Sequence[pa.RecordBatch]) -> int:
    last: Any = batches[-1].column("address")
    return int(last[-1].as_py()) + 1
