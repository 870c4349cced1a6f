"""The column of each field of a stream's values, the same for sealed and for hot rows.

SQL, Spark's frames and output files have these columns. A field's column has its name, or one
beside a column of the log's (storage_core/avro/names.py). Fields are added by schema, oldest first,
and in the order of each:

    the name is taken in another case          <name>_2, or the next free number
    values that the field's column cannot hold <name>_<class>: _struct, _number, ... (type_class)

No two fields share a column, and no two column names differ only in case. A later schema adds
columns, or types to columns; no column changes its name. The map does not depend on the rows.
Fields of structs are named in the same way; a struct with two fields of one name in different case
is not a column (storage_core/parts/typed_columns.py).
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.avro.names import column_beside, free_name
from storage_core.parts.typed_columns import ENVELOPE, column_type, fields_with_columns

# `time` is the primary as a timestamp.
_OWN: Final = ENVELOPE | {"time"}
_Fields = Iterable["pa.Field[Any]"]
# Items of these classes are not named in the class of a list or map.
_UNNAMED_ITEMS: Final = ("number", "string")
# What unifies with strings.
_UNIFY_WITH_STRING: Final = (
    *("number", "bytes", "time", "date"),
    *("timestamp", "timestamp_ns", "local_timestamp", "local_timestamp_ns"),
)
_types: Any = pa.types


@dataclass(slots=True)
class FieldColumn:
    """A column for a field.

    Attributes:
        name: Its name.
        field: The name of the field.
        types: The types of the field in it, in the order in which they were added.
    """

    name: str
    field: str
    types: tuple[pa.DataType, ...] = ()

    def accepts(self, data_type: pa.DataType) -> bool:
        """Tell whether the column can hold values of another type."""
        return can_unify({type_class(known) for known in (*self.types, data_type)})


class FieldColumns:
    """The columns of fields, beside the log's own columns."""

    def __init__(self, own: AbstractSet[str] = frozenset()) -> None:
        """Begin without fields.

        Args:
            own: The names of the log's own columns, in lowercase.
        """
        self._own = own
        self._taken = set(own)
        self._columns: dict[str, list[FieldColumn]] = {}
        self._in_order: list[FieldColumn] = []

    def __iter__(self) -> Iterator[FieldColumn]:
        """Return the columns in the order in which they were added."""
        return iter(self._in_order)

    def add(self, fields: _Fields) -> None:
        """Add the fields of a schema that is newer than all before."""
        for field in fields:
            data_type = engine_type(field.type)
            columns = self._columns.setdefault(field.name, [])
            if any(data_type in column.types for column in columns):
                continue
            column = next((column for column in columns if column.accepts(data_type)), None)
            if column is None:
                name = column_beside(field.name, self._own) + (
                    f"_{type_class(data_type)}" if columns else ""
                )
                column = FieldColumn(free_name(name, self._taken), field.name)
                columns.append(column)
                self._in_order.append(column)
            column.types += (data_type,)

    def column_of(self, name: str, data_type: pa.DataType) -> FieldColumn | None:
        """Return the column of a field for values of a type; None if there is none."""
        columns = self._columns.get(name, [])
        data_type = engine_type(data_type)
        exact = next((column for column in columns if data_type in column.types), None)
        return exact or next((column for column in columns if column.accepts(data_type)), None)

    def name_of(self, name: str, data_type: pa.DataType) -> str:
        """Return the name of the column of a field that was added with this type."""
        column = self.column_of(name, data_type)
        return name if column is None else column.name


def field_columns(schemas: Iterable[AvroSchema]) -> FieldColumns:
    """Return the columns of a stream's values.

    Args:
        schemas: The stream's schemas, in the order of `StreamReader.schemas`.
    """
    columns = FieldColumns(_OWN)
    for schema in schemas:
        fields = schema.arrow_schema(fields_with_columns(schema))
        columns.add([field.with_type(column_type(field.type)) for field in fields])
    return columns


def type_class(data_type: Any) -> str:  # noqa: ANN401, PLR0911 - a type of Arrow's
    """Return the class of types that one column can hold.

    No type holds both numbers and structs. Dates, timestamps without a zone and timestamps of
    nanoseconds are classes of their own: no timestamp type holds all their values, and a zone
    would be a guess.
    """
    if _types.is_struct(data_type):
        return "struct"
    if _types.is_map(data_type):
        return "map" + _item_class(data_type.item_type)
    if _types.is_list(data_type):
        return "list" + _item_class(data_type.value_type)
    if _types.is_binary(data_type) or _types.is_fixed_size_binary(data_type):
        return "bytes"
    if _types.is_time(data_type):
        return "time"
    if _types.is_date(data_type):
        return "date"
    if _types.is_timestamp(data_type):
        zone = "local_" if data_type.tz is None else ""
        return f"{zone}timestamp{'_ns' if data_type.unit == 'ns' else ''}"
    is_string = _types.is_dictionary(data_type) or _types.is_string(data_type)
    return "string" if is_string or column_type(data_type) != data_type else "number"


def _item_class(data_type: Any) -> str:  # noqa: ANN401 - a type of Arrow's
    name = type_class(data_type)
    return "" if name in _UNNAMED_ITEMS else f"_{name}"


def can_unify(classes: AbstractSet[str]) -> bool:
    """Tell whether one column can hold values of all these classes."""
    if len(classes) == 1:
        return True
    others = classes - {"string"}
    return "string" in classes and len(others) == 1 and others < set(_UNIFY_WITH_STRING)


def engine_type(data_type: Any) -> pa.DataType:  # noqa: ANN401 - a type of Arrow's
    """Return the type that engines have for a type, without names of list items."""
    if _types.is_dictionary(data_type):
        return engine_type(data_type.value_type)
    if _types.is_fixed_size_binary(data_type):
        return pa.binary()
    if _types.is_struct(data_type):
        return pa.struct([pa.field(field.name, engine_type(field.type)) for field in data_type])
    if _types.is_map(data_type):
        return pa.map_(pa.string(), engine_type(data_type.item_type))
    if _types.is_list(data_type):
        return pa.list_(engine_type(data_type.value_type))
    return pa.string() if _types.is_decimal256(data_type) else data_type
