"""A part's columns as those of its table, and back.

    casts.rewritten(rows)        the rows of a part, with the table's columns
    as_part(rows, schema)        the part's columns again, of a file that was rewritten

The log's own columns stay as they are; of fields each has the name and the type of its column in
the table. What cannot be turned back without loss stays in the file as well, as `<column>~part`,
which no table declares: values as text, of several columns in one, or changed inside. So no
rewritten file knows less than its part. The file's metadata tells how to get back:

    shardlog.columns    {"<column of the file>": ["<column of the part>", "<its type>"], ...}
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.lake.delta_types import (
    LOCAL_TIMESTAMP,
    NANOSECONDS,
    TIME,
    column_for,
    form_of,
    is_readable_as,
)
from storage_core.parts.typed_columns import ENVELOPE, VARIANT
from storage_core.platform.arrow import one_array

# In the metadata of a file.
COLUMNS: Final = b"shardlog.columns"
_BESIDE: Final = f"{VARIANT}part"
# NOTE: pyarrow (26) has a text that begins so for times whose year has no four digits.
_NO_TEXT: Final = "<"
_types: Any = pa.types
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class FieldCast:
    """A column of a table, and the columns of a part that it is made of.

    Attributes:
        column: The column of the table.
        sources: Those of the part; a row has its value in one of them.
    """

    column: "pa.Field[Any]"
    sources: tuple["pa.Field[Any]", ...]

    @property
    def is_rename(self) -> bool:
        """Whether engines read the one column of the part as it lies, but for its name."""
        return len(self.sources) == 1 and is_readable_as(self.sources[0], self.column)

    @property
    def is_as_it_lies(self) -> bool:
        """Whether engines read the one column of the part as that of the table."""
        return self.is_rename and self.sources[0].name == self.column.name

    @property
    def is_reversible(self) -> bool:
        """Whether the column of the part follows from that of the table."""
        is_number = len(self.sources) == 1 and form_of(self.sources[0].type) == NANOSECONDS
        return self.is_rename or is_number


class Casts:
    """How the columns of a part become those of its table."""

    def __init__(self, fields: Sequence[FieldCast], order: Sequence[str]) -> None:
        """Take the columns of fields, and the order that the part has its own in."""
        self._fields = tuple(fields)
        self._order = tuple(order)

    @property
    def is_as_it_lies(self) -> bool:
        """Whether the part's file already has the table's columns."""
        return all(field.is_as_it_lies for field in self._fields)

    @property
    def origins(self) -> dict[str, list[str]]:
        """The column of the part, and its type, that each column of a rewritten file tells."""
        named = {}
        for field in self._fields:
            for source in field.sources:
                name = field.column.name if field.is_reversible else source.name + _BESIDE
                named[source.name] = name, str(source.type)
        in_order = ((origin, *named[origin]) for origin in self._order)
        return {name: [origin, data_type] for origin, name, data_type in in_order}

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """What a rewritten file says of its columns."""
        return {COLUMNS: json.dumps(self.origins).encode()}

    def rewritten(self, rows: pa.Table) -> pa.Table:
        """Return rows of a part with the columns of the table, and what leads back."""
        columns: dict[str, Any] = {name: rows.column(name) for name in _own(rows.schema)}
        beside: dict[str, Any] = {}
        for field in self._fields:
            values = [rows.column(source.name) for source in field.sources]
            if field.is_rename:
                columns[field.column.name] = values[0]
                continue
            cast = [_cast(one_array(column), field.column.type) for column in values]
            columns[field.column.name] = cast[0] if len(cast) == 1 else _compute.coalesce(*cast)
            if not field.is_reversible:
                names = (source.name + _BESIDE for source in field.sources)
                beside |= dict(zip(names, values, strict=True))
        table: pa.Table = _untyped.table(columns | beside)
        return table.replace_schema_metadata(self.metadata)


def part_columns_of(file: pa.Schema) -> dict[str, str]:
    """Return which column of a file has each column of its part, in the part's order."""
    origins = _origins(file)
    if origins is None:
        return {name: name for name in file.names}
    columns = {name: name for name in _own(file)}
    return columns | {origin: name for name, (origin, _) in origins.items()}


def as_part(rows: pa.Table, file: pa.Schema) -> pa.Table:
    """Return rows of a file with the columns of its part.

    Args:
        rows: Some columns of the file, or all.
        file: What its footer has.
    """
    origins = _origins(file) or {}
    columns: dict[str, Any] = {}
    for origin, name in part_columns_of(file).items():
        if name in rows.schema.names:
            column: Any = rows.column(name)
            _, data_type = origins.get(name, (origin, str(column.type)))
            is_number = data_type != str(column.type) and _types.is_int64(column.type)
            columns[origin] = column.cast(_nanoseconds(data_type)) if is_number else column
    table: pa.Table = _untyped.table(columns)
    return table


def _origins(file: pa.Schema) -> Mapping[str, tuple[str, str]] | None:
    text = (file.metadata or {}).get(COLUMNS)
    return None if text is None else json.loads(text)


def _own(schema: pa.Schema) -> list[str]:
    """Return the log's own columns."""
    return [name for name in schema.names if name.lower() in ENVELOPE]


def _nanoseconds(text: str) -> pa.DataType:
    zoned = pa.timestamp("ns", "UTC")
    assert text == str(zoned), text
    return zoned


def _cast(values: Any, column: Any) -> Any:  # noqa: ANN401 - arrays, types of Arrow's
    """Return values of a field as those of its column in a table."""
    data_type = values.type
    if _types.is_struct(data_type):
        return _cast_struct(values, column)
    if _types.is_map(data_type) or _types.is_list(data_type):
        return _cast_items(values, column)
    form = form_of(data_type)
    if form in (LOCAL_TIMESTAMP, TIME) and _types.is_string(column):
        return _as_text(values)
    return values.cast(column)


def _cast_struct(values: Any, column: Any) -> Any:  # noqa: ANN401 - arrays, types of Arrow's
    children = dict(zip(values.type, values.flatten(), strict=True))
    made = {}
    for child, array in children.items():
        target = column_for(column, child.name, child.type)
        assert target is not None, child
        made[target.name] = _cast(array, target.type)
    arrays = [
        made[child.name] if child.name in made else _untyped.nulls(len(values), child.type)
        for child in column
    ]
    return _untyped.StructArray.from_arrays(arrays, fields=list(column), mask=values.is_null())


def _cast_items(values: Any, column: Any) -> Any:  # noqa: ANN401 - arrays, types of Arrow's
    """Return lists or maps with other items."""
    is_map = _types.is_map(values.type)
    lists = values
    if is_map:
        entry = pa.struct([values.type.key_field, values.type.item_field])
        lists = values.cast(pa.list_(entry))
    sizes = _compute.fill_null(_compute.list_value_length(lists), 0)
    ends = _compute.cumulative_sum(sizes.cast(pa.int32()))
    offsets = _untyped.concat_arrays([_untyped.array([0], pa.int32()), ends])
    # Without what lies behind nulls.
    items, mask = _compute.list_flatten(lists), values.is_null()
    if is_map:
        keys, inside = items.flatten()
        cast = _cast(inside, column.item_type)
        return _untyped.MapArray.from_arrays(offsets, keys, cast, type=column, mask=mask)
    cast = _cast(items, column.value_type)
    return _untyped.ListArray.from_arrays(offsets, cast, type=column, mask=mask)


def _as_text(values: Any) -> Any:  # noqa: ANN401 - arrays
    """Return times as ISO 8601 has them; those that it has not, as their numbers."""
    text = _compute.replace_substring(values.cast(pa.string()), " ", "T", max_replacements=1)
    lacks_text = _compute.starts_with(text, _NO_TEXT)
    if not _compute.any(lacks_text).as_py():
        return text
    width = pa.int32() if _types.is_time32(values.type) else pa.int64()
    return _compute.if_else(lacks_text, values.view(width).cast(pa.string()), text)
