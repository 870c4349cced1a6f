"""The one shape of rows between a stream and any kind of file: its stored columns by address.

Columns `shard`, `secondary` (or none, where rows belong to keys), `primary`, `address`, `version`,
`state`, `key`, `headers`, `timestamp`, `timestamp_type`, `payload` (all of its bytes) and `schema`
(a number in the manifest, null for none).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.format.row_columns import SCHEMA, STORED, schema_of
from storage_core.format.schema_entry import SchemaEntry
from storage_core.parts.part_rows import numbered, stored_columns
from storage_core.read.request import ReadRequest
from storage_core.read.shard_reader import ShardReader

CHUNK_ROWS: Final = 131_072
CHUNK_BYTES: Final = 64 * 2**20
# What a row of another export, or of none, has for a schema.
_STRANGE: Final = -2
_COLUMNS: Final = (*(name for name in STORED if not name.startswith("schema")), SCHEMA)
_untyped: Any = pa


def plain_schema(*, has_keys: bool) -> pa.Schema:
    """Return the columns of plain rows."""
    return schema_of(tuple(name for name in _COLUMNS if not (has_keys and name == "secondary")))


class Numbers(dict[tuple[int, bytes], int]):
    """The numbers of the schemas of a manifest; any other schema has one that none of them has."""

    def __init__(self, entries: Iterable[SchemaEntry]) -> None:
        """Number entries in their order."""
        super().__init__(
            ((one.registry_id, one.fingerprint), number) for number, one in enumerate(entries)
        )

    def __missing__(self, _: tuple[int, bytes]) -> int:
        return _STRANGE


def asked_columns(*, has_keys: bool) -> tuple[str, ...]:
    """Return what is read of a stream to make plain rows of it."""
    return stored_columns(has_keys=has_keys)


def chunks_of(
    shard: ShardReader, request: ReadRequest, numbers: Numbers, rows_max: int
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Yield the rows of a request in order of address, some at a time, and where they end.

    Each of the batches has the columns of `stored_columns`, numbered.
    """
    held: list[pa.RecordBatch] = []
    for batch in shard.scan(request):
        if not batch.num_rows:
            continue
        held.append(numbered(batch, numbers))
        is_full = sum(one.num_rows for one in held) >= rows_max
        if is_full or sum(one.nbytes for one in held) >= CHUNK_BYTES:
            yield _end_of(held), held
            held = []
    if held:
        yield _end_of(held), held


def plain(batches: Sequence[pa.RecordBatch], *, has_keys: bool) -> pa.Table:
    """Return rows as they were stored as plain rows by address."""
    return filled(_untyped.Table.from_batches(batches), has_keys=has_keys)


def filled(rows: pa.Table, *, has_keys: bool) -> pa.Table:
    """Return rows with exactly the columns of plain rows, those that are missing null."""
    columns: list[Any] = []
    schema = plain_schema(has_keys=has_keys)
    for field in schema:
        if field.name in rows.schema.names:
            columns.append(rows.column(field.name).cast(field.type))
        else:
            columns.append(_untyped.nulls(rows.num_rows, field.type))
    made: pa.Table = _untyped.Table.from_arrays(columns, schema=schema)
    return made


def by_address(tables: Sequence[pa.Table], *, has_keys: bool) -> pa.Table:
    """Return plain rows of some files as one table by address."""
    empty = plain_schema(has_keys=has_keys).empty_table()
    rows: pa.Table = _untyped.concat_tables([empty, *tables]).combine_chunks()
    addresses = rows.column("address").to_numpy()
    if not bool((addresses[1:] > addresses[:-1]).all()):
        rows = rows.take(_untyped.array(np.argsort(addresses, kind="stable")))
    return rows


def _end_of(batches: Sequence[pa.RecordBatch]) -> int:
    last: Any = batches[-1].column("address")
    return int(last[-1].as_py()) + 1
