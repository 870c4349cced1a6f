"""Values of one kind as columns of a part, and the payloads that those columns cannot make again.

All rows of a part are shown by one schema: of those that wrote them the one with the highest id in
its registry, of equal ones the last that the shard met. A
row's payload is left out where its fields, written by the row's own schema behind the frame that
`framing` names, are it bit for bit; so what a part leaves out can always be made again, and nothing
is taken on trust. Rows that do not decode have null fields, and keep their payloads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.errors import InvalidRequestError
from storage_core.fields import (
    AvroSchema,
    Decoded,
    decode_batch,
    encode_batch,
    frame_of,
    starts_of,
)
from storage_core.parts.unique_keys import with_unique_keys

# How a payload that is left out begins; null for one that is kept.
FRAMING: Final = "framing"
BARE: Final = 0
BY_ID: Final = 1
SINGLE_OBJECT: Final = 2
# What stands before a body, by the schema's id or without it.
_FRAMES: Final[dict[int, tuple[int, Callable[["Writer"], bytes]]]] = {
    BARE: (0, lambda _: b""),
    BY_ID: (5, lambda writer: frame_of(writer.schema, writer.registry_id)),
    SINGLE_OBJECT: (10, lambda writer: frame_of(writer.schema, None)),
}
ENVELOPE: Final = frozenset(
    {
        *("secondary", "key", "primary", "address", "version", "state", "headers", "timestamp"),
        *("timestamp_type", "payload", "schema_id", "schema", "schema_fingerprint", FRAMING),
        *("shard", "late", "committed_at_ms"),
    }
)
_untyped: Any = pa
_compute: Any = pc
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Writer:
    """A schema that wrote rows, and its id in its registry."""

    schema: AvroSchema
    registry_id: int


def column_of(field: str) -> str:
    """Return the column of a field: its own name, unless the envelope has that."""
    return f"value_{field}" if field.lower() in ENVELOPE else field


def reader_of(writers: Mapping[int, Writer], numbers: Iterable[int]) -> AvroSchema:
    """Return the schema by which rows of these schemas are shown."""
    newest = max(numbers, key=lambda number: (writers[number].registry_id, number))
    return writers[newest].schema


def with_fields(rows: pa.Table, writers: Mapping[int, Writer]) -> pa.Table:
    """Return rows of one kind with their fields, without the payloads that these can make.

    Args:
        rows: With the columns payload, headers and schema; rows have a schema.
        writers: By number.
    """
    table: Any = rows.combine_chunks()
    numbers = table.column("schema").to_numpy()
    reader = reader_of(writers, np.unique(numbers).tolist())
    payload = _one(table.column("payload"))
    headers = _one(table.column("headers")) if "headers" in table.schema.names else None
    starts = starts_of(payload, headers)
    there = payload.is_valid().to_numpy(zero_copy_only=False)
    framing = np.full(len(numbers), -1, np.int8)
    parts: list[tuple[Places, Any]] = []
    names = shown_fields(reader)
    for number in np.unique(numbers):
        places = np.flatnonzero((numbers == number) & there)
        if len(places):
            writer = writers[int(number)]
            is_all = len(places) == len(numbers)
            bodies = payload if is_all else payload.take(_untyped.array(places))
            decoded = _decoded(bodies, writer, reader, starts[places])
            if decoded is not None:
                parts.append((places, decoded.table.select(names)))
                framing[places] = _framing(decoded, names, bodies, writer, starts[places])
    kept = _untyped.array(framing >= 0)
    table = table.set_column(
        table.schema.get_field_index("payload"),
        "payload",
        _compute.if_else(kept, _untyped.scalar(None, payload.type), payload),
    )
    table = table.append_column(FRAMING, _untyped.array(framing, mask=framing < 0))
    for name, column in _columns(reader, names, parts, len(numbers)):
        table = table.append_column(column_of(name), column)
    found: pa.Table = table
    return found


def payloads_of(rows: pa.Table, writers: Mapping[int, Writer], fields: list[str]) -> Any:  # noqa: ANN401 - an array
    """Return the payloads of rows of a part, those made again that were left out.

    Args:
        rows: With the columns of a part of values.
        writers: By number.
        fields: The fields that it has as columns.
    """
    table: Any = rows.combine_chunks()
    made: Any = _one(table.column("payload"))
    framing = table.column(FRAMING).fill_null(-1).to_numpy()
    numbers = table.column("schema").to_numpy()
    values = table.select([column_of(name) for name in fields]).rename_columns(fields)
    values = _with_wide_decimals(values, reader_of(writers, np.unique(numbers).tolist()))
    for number in np.unique(numbers):
        for how, (_, frame) in _FRAMES.items():
            places = np.flatnonzero((numbers == number) & (framing == how))
            if len(places):
                writer = writers[int(number)]
                some = _known_to(writer.schema, values.take(_untyped.array(places)))
                bodies = encode_batch(some, writer.schema, frame=frame(writer))
                mask = np.zeros(len(numbers), np.bool_)
                mask[places] = True
                made = _compute.replace_with_mask(made, _untyped.array(mask), bodies)
    return made


def _decoded(
    bodies: Any,  # noqa: ANN401 - an array
    writer: Writer,
    reader: AvroSchema,
    starts: Places,
) -> Decoded | None:
    """Return the fields of bodies; None where the reader cannot read what the writer wrote."""
    try:
        decoded = decode_batch(bodies, writer.schema, reader=reader, starts=starts)
    except InvalidRequestError:
        return None
    table: Any = decoded.table
    for at, name in enumerate(table.schema.names):
        column = table.column(name)
        if pa.types.is_nested(column.type):
            # A row that loses an entry by it keeps its payload.
            table = table.set_column(at, table.schema.field(at), with_unique_keys(column))
    return Decoded(table, decoded.faults)


def _framing(
    decoded: Decoded,
    names: list[str],
    payload: Any,  # noqa: ANN401 - an array
    writer: Writer,
    starts: Places,
) -> npt.NDArray[np.int8]:
    """Return for each row how its payload can be made again; -1 where it cannot."""
    found = np.full(len(starts), -1, np.int8)
    values = _known_to(writer.schema, decoded.table.select(names))
    if not values.schema.names:
        # Nothing is shown of such values, and Arrow counts no rows without columns.
        return found
    is_read = np.ones(len(starts), np.bool_)
    is_read[[fault.row for fault in decoded.faults]] = False
    for how, (size, frame) in _FRAMES.items():
        some = np.flatnonzero((starts == size) & is_read)
        if not len(some):
            continue
        try:
            is_all = len(some) == len(starts)
            chosen = values if is_all else values.take(_untyped.array(some))
            bodies = encode_batch(chosen, writer.schema, frame=frame(writer))
        except InvalidRequestError:
            # The reader has too little of what the writer wrote.
            continue
        stored = payload if is_all else payload.take(_untyped.array(some))
        same = _compute.equal(bodies, stored)
        found[some[same.to_numpy(zero_copy_only=False)]] = how
    return found


def _known_to(writer: AvroSchema, values: Any) -> Any:  # noqa: ANN401 - a table
    """Return the columns that a writer has fields for."""
    there = {field.name for field in writer.fields}
    return values.select([name for name in values.schema.names if name in there])


def shown_fields(reader: AvroSchema) -> list[str]:
    """Return the fields that a file of Parquet can have as columns."""
    names: list[str] = []
    columns: set[str] = set()
    for field in reader.fields:
        if column_of(field.name) in columns:
            continue
        try:
            kind = reader.arrow_schema([field.name]).field(0).type
        except InvalidRequestError:
            continue
        if _can_lie(kind):
            names.append(field.name)
            columns.add(column_of(field.name))
    return names


def shown_type(kind: Any) -> Any:  # noqa: ANN401 - a type of Arrow's
    """Return the type that a column of a part has for a field's: of wide decimals it is text.

    Many readers of Parquet, DuckDB among them, have decimals of 38 digits, and floats beyond.
    """
    if pa.types.is_decimal256(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(shown_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(shown_type(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(shown_type(kind.value_type)))
    return kind


def _with_wide_decimals(values: Any, reader: AvroSchema) -> Any:  # noqa: ANN401 - tables
    """Return columns of a part with the decimals that are texts there."""
    for at, field in enumerate(reader.arrow_schema(values.schema.names)):
        if shown_type(field.type) != field.type:
            values = values.set_column(at, field.name, values.column(at).cast(field.type))
    return values


def _can_lie(kind: pa.DataType) -> bool:
    """Tell whether Parquet has a type; it knows no struct without fields, no bytes of width 0."""
    if pa.types.is_struct(kind):
        children = list(kind)
        return bool(children) and all(_can_lie(one.type) for one in children)
    if pa.types.is_map(kind):
        return _can_lie(kind.item_type)
    if pa.types.is_list(kind):
        return _can_lie(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width)
    return not pa.types.is_null(kind)


def _columns(
    reader: AvroSchema, names: list[str], parts: list[tuple[Places, Any]], count: int
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of all rows, null where there is no value."""
    where = np.full(count, -1, np.int64)
    first = 0
    for places, _ in parts:
        where[places] = np.arange(first, first + len(places))
        first += len(places)
    taken = _untyped.array(where, mask=where < 0)
    empty = reader.arrow_schema(names).empty_table()
    rows = _untyped.concat_tables([empty, *(fields for _, fields in parts)])
    is_all = first == count and bool((where == np.arange(count)).all())
    for name in names:
        column = rows.column(name).combine_chunks()
        if shown_type(column.type) != column.type:
            column = column.cast(shown_type(column.type))
        yield name, column if is_all else column.take(taken)


def _one(column: Any) -> Any:  # noqa: ANN401 - an array, of a chunked one
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
