"""The typed columns of a part: which there are, their names, and values decoded into them.

A column is of one field. It has the field's name (`column_of`), and `<column>~2` and so on where
the part has a column of that name: for the same field with another type, or for a field whose name
differs only in case, which many readers of Parquet do not tell apart.

A part has the fields of all schemas that wrote its rows, by name, each with the type that the
newest schema with it has; a field of a type that this one cannot hold is a column of its own.
Inside a record, too, no row shows a field that its own schema has not, nor lacks one. What a row's
schema has not is null, whatever default another schema has; so a row reads the same alone, beside
rows of other versions, and merged with them. A row that does not decode, or has a time that
microseconds cannot count, as SQL and Spark count them, is null in every field.

Of a map that has a key twice, which Avro allows and few readers of Parquet do, the last one counts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.avro import AvroSchema, Decoded, Fault, decode_batch
from storage_core.avro.names import column_beside, field_beside, free_name, is_valid_name
from storage_core.errors import InvalidRequestError

# Behind it is the number of a column that shows a field beside another column of its name.
VARIANT: Final = "~"
# How a payload that is left out begins; null for one that is stored.
FRAMING: Final = "framing"
ENVELOPE: Final = frozenset(
    {
        *("secondary", "key", "primary", "address", "version", "state", "headers", "timestamp"),
        *("timestamp_type", "payload", "schema_id", "schema", "schema_fingerprint", FRAMING),
        *("shard", "late", "committed_at_ms"),
    }
)
_MS_MAX: Final = (2**63 - 1) // 1000
_untyped: Any = pa
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# What holds every value of another type, and rebuilds it.
_HELD: Final = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}


@dataclass(frozen=True, slots=True)
class Writer:
    """A schema that wrote rows, and its id in its registry."""

    schema: AvroSchema
    registry_id: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a part's values.

    Attributes:
        types: Theirs, as the fields have them.
        places: The column of each field, by the schema's number.
        newest: Those of the newest schema, by whose fields payloads are rebuilt.
    """

    types: pa.Schema
    places: Mapping[int, Mapping[str, str]]
    newest: Mapping[str, str]


def column_of(field: str) -> str:
    """Return the column of a field: its own name, unless the log has a column of that name."""
    return column_beside(field, ENVELOPE)


def base_of(column: str) -> str:
    """Return the column that a column stands beside; mostly it is itself."""
    return column.partition(VARIANT)[0]


def columns_in(reader: AvroSchema, file_columns: Collection[str]) -> dict[str, str]:
    """Return the column of each field of a part's schema, of those that its file has.

    Args:
        reader: The schema by which the part shows values.
        file_columns: The columns of the file.
    """
    variants: dict[str, list[str]] = {}
    for column in file_columns:
        variants.setdefault(base_of(column), []).append(column)
    chosen: dict[str, str] = {}
    for field in _storable_fields(reader):
        # The columns of the newest schema are named before those of others.
        own = column_of(field)
        of_field = [own] if own in file_columns else variants.get(own, [])
        if of_field:
            chosen[field] = min(of_field, key=lambda name: (len(name), name))
    return chosen


def fields_in(columns: Iterable[str]) -> dict[str, str]:
    """Return which field each column of a part shows that is not of the log itself."""
    own = (one for one in columns if one.lower() not in ENVELOPE)
    return {one: field_beside(base_of(one), ENVELOPE) for one in own}


def fields_with_columns(reader: AvroSchema) -> list[str]:
    """Return the fields that have columns in parts: those that readers of Parquet tell apart."""
    return [
        field.name
        for field in reader.arrow_schema(_storable_fields(reader))
        if is_valid_name(field.name) and not _has_ambiguous_names(field.type)
    ]


def column_type(kind: Any) -> Any:  # noqa: ANN401 - a type of Arrow's
    """Return the type that a column of a part has for a field's: of wide decimals it is text.

    Many readers of Parquet, DuckDB among them, have decimals of 38 digits, and floats beyond.
    """
    if pa.types.is_decimal256(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(column_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(column_type(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(column_type(kind.value_type)))
    return kind


def reader_schema(writers: Mapping[int, Writer], numbers: Iterable[int]) -> AvroSchema:
    """Return the schema by which rows of these schemas are shown."""
    newest = max(numbers, key=lambda number: (writers[number].registry_id, number))
    return writers[newest].schema


def layout_of(writers: Mapping[int, Writer], numbers: Sequence[int]) -> Layout:
    """Return the columns of rows of these schemas, those of the newest schema first."""
    types: dict[str, pa.DataType] = {}
    taken: set[str] = set()
    of_field: dict[str, list[str]] = {}
    places: dict[int, dict[str, str]] = {}
    order = sorted(numbers, key=lambda number: (writers[number].registry_id, number))
    for number in reversed(order):
        schema = writers[number].schema
        places[number] = of_schema = {}
        for field in schema.arrow_schema(fields_with_columns(schema)):
            columns = of_field.setdefault(field.name, [])
            column = next((one for one in columns if _holds(types[one], field.type)), None)
            if column is None:
                column = free_name(column_of(field.name), taken, VARIANT)
                columns.append(column)
                types[column] = field.type
            of_schema[field.name] = column
    return Layout(pa.schema(list(types.items())), places, places[order[-1]])


def _holds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Tell whether a column of one type holds values of another."""
    return kind == other or (other, kind) in _HELD


def decoded_as(
    layout: Layout,
    number: int,
    bodies: Any,  # noqa: ANN401 - an array
    writer: Writer,
    starts: Places,
) -> Decoded | None:
    """Return bodies of one schema as columns; None where it has none of them."""
    places = layout.places[number]
    if not places:
        return None
    decoded = decode_batch(bodies, writer.schema, columns=list(places), starts=starts)
    columns = {column: decoded.table.column(name) for name, column in places.items()}
    reasons = {fault.row: fault.reason for fault in decoded.faults}
    for name, column in columns.items():
        # A row that loses an entry of a map by it keeps its payload.
        columns[name] = unique = with_unique_keys(column)
        if _has_ms(unique.type):
            for row in np.flatnonzero(_uncounted(unique)).tolist():
                reasons.setdefault(row, "a time that microseconds cannot count")
    if reasons:
        where = np.arange(len(bodies))
        taken = _untyped.array(where, mask=np.isin(where, list(reasons)))
        columns = {name: column.take(taken) for name, column in columns.items()}
    table = pa.table(
        {one.name: _of_type(columns.get(one.name), one.type, len(bodies)) for one in layout.types},
        schema=layout.types,
    )
    return Decoded(table, tuple(Fault(row, reasons[row]) for row in sorted(reasons)))


def _of_type(column: Any, kind: pa.DataType, count: int) -> Any:  # noqa: ANN401 - arrays
    if column is None:
        return _untyped.nulls(count, kind)
    return column if column.type == kind else column.cast(kind)


def _has_ms(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ms")
    return any(_has_ms(kind.field(at).type) for at in range(kind.num_fields))


def _uncounted(column: Any) -> Mask:  # noqa: ANN401 - an array, or a chunked one
    """Tell which rows hold a time, however deep, that microseconds cannot count."""
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.bool_), *map(_uncounted, column.chunks)])
    kind = column.type
    is_uncounted = np.zeros(len(column), np.bool_)
    if pa.types.is_timestamp(kind) and kind.unit == "ms":
        numbers = column.view(pa.int64()).fill_null(0).to_numpy()
        is_uncounted |= (numbers > _MS_MAX) | (numbers < -_MS_MAX)
    elif pa.types.is_struct(kind):
        for inside in column.flatten():
            is_uncounted |= _uncounted(inside)
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        items = column.items if pa.types.is_map(kind) else column.values
        edges = column.offsets.to_numpy()
        count = np.concatenate(([0], np.cumsum(_uncounted(items))))
        is_uncounted = count[edges[1:]] > count[edges[:-1]]
    return is_uncounted


def with_unique_keys(column: Any) -> Any:  # noqa: ANN401 - an array, or a chunked one
    """Return a column whose maps, however deep, have each key once: of equal ones the last."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [with_unique_keys(one) for one in column.chunks]
        return _untyped.chunked_array(chunks, column.type)
    kind = column.type
    if not pa.types.is_nested(kind) or not kind.num_fields or not len(column):
        return column
    if pa.types.is_struct(kind):
        # Without their parent's nulls and offset, which the parent keeps.
        inside = [with_unique_keys(one) for one in column.flatten()]
        mask = column.is_null()
        return _untyped.StructArray.from_arrays(inside, fields=list(kind), mask=mask)
    return _of_lists(column, kind)


def _of_lists(column: Any, kind: Any) -> Any:  # noqa: ANN401 - of lists or maps
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    edges = column.offsets.to_numpy().astype(np.int64)
    sizes = np.where(is_valid, np.diff(edges), 0)
    first, count = int(edges[0]), int(edges[-1] - edges[0])
    if int(sizes.sum()) != count:
        # Something lies behind nulls.
        column = column.take(_untyped.array(np.arange(len(column))))
        edges = column.offsets.to_numpy().astype(np.int64)
        first, count = int(edges[0]), int(edges[-1] - edges[0])
    if not pa.types.is_map(kind):
        values = with_unique_keys(column.values.slice(first, count))
        return _lists(kind, is_valid, sizes, values)
    keys, items = column.keys.slice(first, count), column.items.slice(first, count)
    items = with_unique_keys(items)
    lasting = _last_of_each(keys, sizes)
    if len(lasting) < count:
        rows = np.repeat(np.arange(len(sizes)), sizes)
        sizes = np.bincount(rows[lasting], minlength=len(sizes))
        keys, items = keys.take(_untyped.array(lasting)), items.take(_untyped.array(lasting))
    fields = [kind.key_field, kind.item_field]
    return _lists(
        kind, is_valid, sizes, _untyped.StructArray.from_arrays([keys, items], fields=fields)
    )


def _last_of_each(keys: Any, sizes: Any) -> Any:  # noqa: ANN401 - arrays
    """Return the places of entries whose key does not come again in their map, ascending."""
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    both = rows * (int(codes.max(initial=0)) + 1) + codes
    _, from_behind = np.unique(both[::-1], return_index=True)
    return np.sort(len(both) - 1 - from_behind)


def _lists(kind: Any, is_valid: Any, sizes: Any, values: Any) -> Any:  # noqa: ANN401 - arrays
    offsets = pa.py_buffer(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32).tobytes())
    bits = np.packbits(is_valid, bitorder="little").tobytes()
    validity = None if is_valid.all() else pa.py_buffer(bits)
    return _untyped.Array.from_buffers(kind, len(is_valid), [validity, offsets], children=[values])


def _storable_fields(reader: AvroSchema) -> list[str]:
    """Return the fields that a file of Parquet can have as columns."""
    names: list[str] = []
    for field in reader.fields:
        try:
            kind = reader.arrow_schema([field.name]).field(0).type
        except InvalidRequestError:
            continue
        if field.name not in names and _is_storable(kind):
            names.append(field.name)
    return names


def _is_storable(kind: pa.DataType) -> bool:
    """Tell whether Parquet has a type; it knows no struct without fields, no bytes of width 0."""
    if pa.types.is_struct(kind):
        children = list(kind)
        return bool(children) and all(_is_storable(one.type) for one in children)
    if pa.types.is_map(kind):
        return _is_storable(kind.item_type)
    if pa.types.is_list(kind):
        return _is_storable(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width)
    return not pa.types.is_null(kind)


def _has_ambiguous_names(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    """Tell whether a record, at any depth, has fields whose names differ only in case."""
    fields = [kind.field(at) for at in range(kind.num_fields)]
    names = {one.name.lower() for one in fields} if pa.types.is_struct(kind) else set()
    is_ambiguous = pa.types.is_struct(kind) and len(names) < len(fields)
    return is_ambiguous or any(_has_ambiguous_names(one.type) for one in fields)
