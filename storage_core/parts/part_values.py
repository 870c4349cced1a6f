"""What columns of a part say of its rows' values, and payloads made again of them.

A part has a schema: of those that wrote its rows the one with the highest id in its registry, of
equal ones the last that the shard met. A row's payload is left out where the fields of that one,
written by the row's own schema behind the frame that `framing` names, are it bit for bit. Columns
of fields that it does not have, or has of other types (`<column>~2`), only show
(storage_core/parts/shown_values.py). Which payloads are left out was tried when the part was made
(storage_core/parts/typed_rows.py).

A column is of one field. It is called as the field (`column_of`), and `<column>~2` and so on where
the part has that name already: of the field by another type, or of one that differs only in case,
which many readers of Parquet do not tell apart.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro import AvroSchema, encode_batch, frame_of
from storage_core.avro.names import column_beside, field_beside, is_valid_name
from storage_core.errors import InvalidRequestError
from storage_core.format.row_columns import TYPES

# Behind it is the number of a column that shows a field beside another column of its name.
VARIANT: Final = "~"
# How a payload that is left out begins; null for one that is kept.
FRAMING: Final = "framing"
BARE: Final = 0
BY_ID: Final = 1
SINGLE_OBJECT: Final = 2
# What stands before a body, by the schema's id or without it.
FRAMES: Final[dict[int, tuple[int, Callable[["Writer"], bytes]]]] = {
    BARE: (0, lambda _: b""),
    BY_ID: (5, lambda writer: frame_of(writer.schema, writer.registry_id)),
    SINGLE_OBJECT: (10, lambda writer: frame_of(writer.schema, None)),
}
ENVELOPE: Final = frozenset((*TYPES, FRAMING))
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class Writer:
    """A schema that wrote rows, and its id in its registry."""

    schema: AvroSchema
    registry_id: int


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
    for field in _columnar(reader):
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


def reader_of(writers: Mapping[int, Writer], numbers: Iterable[int]) -> AvroSchema:
    """Return the schema by which rows of these schemas are shown."""
    newest = max(numbers, key=lambda number: (writers[number].registry_id, number))
    return writers[newest].schema


def payloads_of(
    rows: pa.Table, writers: Mapping[int, Writer], columns: Mapping[str, str], reader: AvroSchema
) -> Any:  # noqa: ANN401 - an array
    """Return the payloads of rows of a part, those made again that were left out.

    Args:
        rows: With the columns of a part of values.
        writers: By number.
        columns: Those of its schema's fields, by field (`columns_in`).
        reader: The schema by which the part shows values, that of all its rows.
    """
    table: Any = rows.combine_chunks()
    made: Any = one_array(table.column("payload"))
    framing = table.column(FRAMING).fill_null(-1).to_numpy()
    numbers = table.column("schema").to_numpy()
    values = table.select(list(columns.values())).rename_columns(list(columns))
    values = _with_wide_decimals(values, reader)
    for number in np.unique(numbers):
        for how, (_, frame) in FRAMES.items():
            mask = (numbers == number) & (framing == how)
            if mask.any():
                writer = writers[int(number)]
                # All rows of most parts: nothing is to be picked out then, or put between others.
                some = values if mask.all() else values.take(_untyped.array(np.flatnonzero(mask)))
                some = known_to(writer.schema, some)
                bodies = encode_batch(some, writer.schema, frame=frame(writer))
                if mask.all():
                    return bodies
                made = _compute.replace_with_mask(made, _untyped.array(mask), bodies)
    return made


def known_to(writer: AvroSchema, values: Any) -> Any:  # noqa: ANN401 - a table
    """Return the columns that a writer has fields for."""
    writer_fields = {field.name for field in writer.fields}
    return values.select([name for name in values.schema.names if name in writer_fields])


def shown_fields(reader: AvroSchema) -> list[str]:
    """Return the fields that have columns in parts: those that readers of Parquet tell apart."""
    return [
        field.name
        for field in reader.arrow_schema(_columnar(reader))
        if is_valid_name(field.name) and not _has_alike(field.type)
    ]


def _columnar(reader: AvroSchema) -> list[str]:
    """Return the fields that a file of Parquet can have as columns."""
    names: list[str] = []
    for field in reader.fields:
        try:
            kind = reader.arrow_schema([field.name]).field(0).type
        except InvalidRequestError:
            continue
        if field.name not in names and _can_lie(kind):
            names.append(field.name)
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
    for index, field in enumerate(reader.arrow_schema(values.schema.names)):
        if shown_type(field.type) != field.type:
            values = values.set_column(index, field.name, values.column(index).cast(field.type))
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


def _has_alike(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    """Tell whether a record, at any depth, has fields whose names differ only in case."""
    fields = [kind.field(at) for at in range(kind.num_fields)]
    names = {one.name.lower() for one in fields} if pa.types.is_struct(kind) else set()
    is_alike = pa.types.is_struct(kind) and len(names) < len(fields)
    return is_alike or any(_has_alike(one.type) for one in fields)


def one_array(column: Any) -> Any:  # noqa: ANN401 - an array
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    # NOTE: pyarrow copies a single chunk, too.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
