"""What rows show of their schemas, and which schemas a shard knows.

Blocks and late rows have a shard's own numbers, which no caller gets. Where `schema_id` or
`schema_fingerprint` is asked for, a scan reads the numbers in their stead, and here they become
what the snapshot's dictionary has under them. Each schema is read once a scan.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.keys import INT32_MAX, INT32_MIN
from storage_core.format.row_columns import SCHEMA, TYPES
from storage_core.format.schema_entry import (
    FINGERPRINT_BYTES_MAX,
    SchemaEntry,
    decode_schema_number,
    schema_number_key,
)
from storage_core.ids.dictionaries.schemas import schema_of
from storage_core.platform.arrow import Array, distinct, int_array, nulls, repeated
from storage_core.read.columns import same_number
from storage_core.read.keyed import Scanned
from storage_core.read.snapshot import ShardSnapshot

SCHEMA_ID: Final = "schema_id"
SCHEMA_FINGERPRINT: Final = "schema_fingerprint"
SCHEMA_COLUMNS: Final = frozenset((SCHEMA_ID, SCHEMA_FINGERPRINT))


def by_schema_number(columns: Sequence[str]) -> tuple[str, ...]:
    """Return what is to be read of rows that have schemas, for columns some of which show them."""
    return (*(name for name in columns if name not in SCHEMA_COLUMNS), SCHEMA)


def with_schemas(snapshot: ShardSnapshot, scanned: Scanned, columns: Sequence[str]) -> Scanned:
    """Yield what was scanned by number with the columns that were asked for.

    Raises:
        CorruptionError: A row's number has no entry, or a damaged one.
    """
    entries: dict[int, SchemaEntry] = {}
    for batch, reached in scanned:
        numbers = batch.column(SCHEMA)
        made: dict[str, Array] = {}
        for name in SCHEMA_COLUMNS.intersection(columns):
            made[name] = _column(snapshot, name, numbers, entries)
        arrays = [made[name] if name in made else batch.column(name) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns)), reached


def schemas_in(snapshot: ShardSnapshot, registry_id: int | None = None) -> Iterator[SchemaEntry]:
    """Yield the schemas that a snapshot knows, or those of a registry's id, by number.

    Raises:
        CorruptionError: One that was given is missing or damaged.
    """
    every = range(snapshot.state.schemas)
    for number in every if registry_id is None else _numbers_of(snapshot, registry_id):
        yield _entry(snapshot, number)


def _numbers_of(snapshot: ShardSnapshot, registry_id: int) -> list[int]:
    """Return the numbers of the schemas with an id that the snapshot has."""
    count = snapshot.state.schemas
    if not count or not INT32_MIN <= registry_id <= INT32_MAX:
        return []
    start = schema_number_key(registry_id, b"")
    items = snapshot.meta_items(start, start + b"\xff" * (FINGERPRINT_BYTES_MAX + 1))
    numbers = (decode_schema_number(value) for _, value in items)
    return sorted(one for one in numbers if one is not None and 0 <= one < count)


def _column(
    snapshot: ShardSnapshot, name: str, numbers: Array, entries: dict[int, SchemaEntry]
) -> Array:
    """Return a column of the rows' schemas; `entries` are those that were read before."""
    kind = TYPES[name]
    if numbers.null_count == len(numbers):
        return nulls(len(numbers), kind)
    if not numbers.null_count and (plain := numbers.to_numpy())[0] == plain[-1]:
        first = int(plain[0])
        if (plain == first).all():
            value = _value(snapshot, name, first, entries)
            if isinstance(value, int):
                return same_number(name, value, len(numbers))
            return repeated(value, kind, len(numbers))
    values, codes = distinct(numbers)
    distinct_numbers: list[Any] = values.to_pylist()
    column = [_value(snapshot, name, number, entries) for number in distinct_numbers]
    # The last is that of rows without a schema, whose code is -1.
    table: Array = pa.array([*column, None], kind)
    return table.take(int_array(codes % len(table)))


def _value(
    snapshot: ShardSnapshot, name: str, number: int, entries: dict[int, SchemaEntry]
) -> int | bytes:
    if number not in entries:
        entries[number] = _entry(snapshot, number)
    entry = entries[number]
    return entry.registry_id if name == SCHEMA_ID else entry.fingerprint


def _entry(snapshot: ShardSnapshot, number: int) -> SchemaEntry:
    try:
        return schema_of(number, snapshot.state.schemas, snapshot.value_at)
    except CorruptionError as error:
        raise error.placed(snapshot.stream, snapshot.shard) from error
