"""The types of a Delta table's columns: wide from the start, since no engine widens them all.

    int, long                             long
    float, double                         double
    string, enum, wide decimals           string
    bytes, fixed                          binary
    boolean, date, decimal(p, s)          the same
    timestamps of milli-, microseconds    timestamp
    timestamps of nanoseconds             long
    local timestamps, times of day        string, as ISO 8601 has them
    list, map, struct                     of the types of what is inside

A file may have narrower types than its table: `is_readable` tells which ones every engine takes.
A column remembers in its metadata which field it shows (`FIELD`), and which values that Delta has
no type for (`FORM`). All columns may be null.
"""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from storage_core.avro.names import free_name

# In a column's metadata: the name of the field that it shows, and the form of its values.
FIELD: Final = b"shardlog.field"
FORM: Final = b"shardlog.form"
# Values that Delta has no type for, as numbers and as text.
NANOSECONDS: Final = "timestamp_ns"
LOCAL_TIMESTAMP: Final = "local_timestamp"
TIME: Final = "time"
TIMESTAMP: Final = pa.timestamp("us", "UTC")
_TEXT_FORMS: Final = (LOCAL_TIMESTAMP, TIME)
# What readers of Parquet widen as they read: the type in a file, and that of its table.
_WIDENED: Final = {
    (pa.int32(), pa.int64()),
    (pa.uint8(), pa.int16()),
    (pa.uint16(), pa.int32()),
    (pa.float32(), pa.float64()),
    (pa.timestamp("ms", "UTC"), TIMESTAMP),
}
_UNSIGNED: Final = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32()}
_types: Any = pa.types
_Fields = list["pa.Field[Any]"]


def form_of(data_type: Any) -> str:  # noqa: ANN401 - a type of Arrow's
    """Return which values a type has that Delta has no type for; mostly none, ''."""
    if _types.is_time(data_type):
        return TIME
    if _types.is_timestamp(data_type):
        if data_type.tz is None:
            return LOCAL_TIMESTAMP
        return NANOSECONDS if data_type.unit == "ns" else ""
    return ""


def delta_type(data_type: Any) -> pa.DataType:  # noqa: ANN401, PLR0911 - a type of Arrow's
    """Return the type that a Delta table has for a field's values."""
    if _types.is_struct(data_type):
        return grown_type(pa.struct([]), data_type)
    if _types.is_map(data_type):
        return pa.map_(pa.string(), delta_type(data_type.item_type))
    if _types.is_list(data_type):
        return pa.list_(delta_type(data_type.value_type))
    if _types.is_dictionary(data_type):
        return delta_type(data_type.value_type)
    form = form_of(data_type)
    if form in _TEXT_FORMS or _types.is_decimal256(data_type):
        return pa.string()
    if form == NANOSECONDS or _types.is_integer(data_type):
        return pa.int64()
    if _types.is_floating(data_type):
        return pa.float64()
    if _types.is_timestamp(data_type):
        return TIMESTAMP
    return pa.binary() if _types.is_fixed_size_binary(data_type) else data_type


def own_field(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """Return a column of the log's own as a Delta table has it: no type is unsigned."""
    return normal_field(field.with_type(_UNSIGNED.get(field.type, field.type)))


def normal_field(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """Return a column without what does not tell its type: names of items, and what is not null."""
    return pa.field(field.name, _normal_type(field.type), metadata=field.metadata)


def _normal_type(data_type: Any) -> pa.DataType:  # noqa: ANN401 - a type of Arrow's
    if _types.is_struct(data_type):
        return pa.struct([normal_field(child) for child in data_type])
    if _types.is_map(data_type):
        return pa.map_(pa.string(), _normal_type(data_type.item_type))
    if _types.is_list(data_type):
        return pa.list_(_normal_type(data_type.value_type))
    same: pa.DataType = data_type
    return same


def add_field(
    columns: _Fields, field: str, data_type: pa.DataType, name: str, taken: set[str]
) -> None:
    """Let some columns have one for a field's values: one of them, grown if need be, or a new one.

    Args:
        columns: Columns of a table, or fields of a struct.
        field: The name of the field.
        data_type: The type of its values.
        name: The name of its first column.
        taken: The names of columns, in lowercase.
    """
    column = column_for(columns, field, data_type)
    if column is not None:
        index = columns.index(column)
        columns[index] = column.with_type(grown_type(column.type, data_type))
        return
    form, delta = form_of(data_type), delta_type(data_type)
    if any(field_of(before) == field for before in columns):
        name = f"{name}_{form or _delta_name(delta)}"
    metadata = {FIELD: field.encode()} | ({FORM: form.encode()} if form else {})
    columns.append(pa.field(free_name(name, taken), delta, metadata=metadata))


def column_for(
    columns: Iterable["pa.Field[Any]"], field: str, data_type: pa.DataType
) -> "pa.Field[Any] | None":
    """Return the column that has a field's values of a type; None if none has."""
    form = form_of(data_type)
    for column in columns:
        is_of_field = field_of(column) == field and _form_in(column) == form
        if is_of_field and _accepts(column.type, data_type):
            return column
    return None


def field_of(column: "pa.Field[Any]") -> str:
    """Return the field that a column shows."""
    name = (column.metadata or {}).get(FIELD)
    return column.name if name is None else name.decode()


def _form_in(column: "pa.Field[Any]") -> str:
    return str((column.metadata or {}).get(FORM, b"").decode())


def _accepts(column: Any, data_type: Any) -> bool:  # noqa: ANN401 - types of Arrow's
    """Tell whether a column of a table can have values, once it has grown."""
    if _types.is_struct(column):
        return bool(_types.is_struct(data_type))
    if _types.is_map(column):
        return bool(_types.is_map(data_type)) and _accepts(column.item_type, data_type.item_type)
    if _types.is_list(column):
        return bool(_types.is_list(data_type)) and _accepts(column.value_type, data_type.value_type)
    return bool(delta_type(data_type) == column)


def grown_type(column: Any, data_type: Any) -> pa.DataType:  # noqa: ANN401 - types of Arrow's
    """Return the type of a column with the fields, at any depth, that other values have beside."""
    if _types.is_struct(column):
        fields = list(column)
        taken = {child.name.lower() for child in fields}
        for child in data_type:
            add_field(fields, child.name, child.type, child.name, taken)
        return pa.struct(fields)
    if _types.is_map(column):
        return pa.map_(pa.string(), grown_type(column.item_type, data_type.item_type))
    if _types.is_list(column):
        return pa.list_(grown_type(column.value_type, data_type.value_type))
    same: pa.DataType = column
    return same


def is_readable(data_type: Any, column: Any) -> bool:  # noqa: ANN401 - types of Arrow's
    """Tell whether engines read a file's values of a type as those of a table's column."""
    if _types.is_struct(data_type):
        children = [(child, column_for(column, child.name, child.type)) for child in data_type]
        return all(
            target is not None and target.name == child.name and is_readable_as(child, target)
            for child, target in children
        )
    if _types.is_map(data_type):
        return is_readable(data_type.item_type, column.item_type)
    if _types.is_list(data_type):
        return is_readable(data_type.value_type, column.value_type)
    if _types.is_dictionary(data_type):
        return bool(data_type.value_type == column)
    if _types.is_fixed_size_binary(data_type):
        return bool(column == pa.binary())
    return data_type == column or (data_type, column) in _WIDENED


def is_readable_as(source: "pa.Field[Any]", column: "pa.Field[Any]") -> bool:
    """Tell whether engines read a column of a file as one of a table, but for its name."""
    return form_of(source.type) == "" and is_readable(source.type, column.type)


def _delta_name(data_type: Any) -> str:  # noqa: ANN401 - a type of Delta's
    """Return what Delta calls a type."""
    names = (
        (_types.is_struct, "struct"),
        (_types.is_map, "map"),
        (_types.is_list, "array"),
        (_types.is_boolean, "boolean"),
        (_types.is_integer, "long"),
        (_types.is_floating, "double"),
        (_types.is_decimal, "decimal"),
        (_types.is_date, "date"),
        (_types.is_timestamp, "timestamp"),
        (_types.is_binary, "binary"),
    )
    return next((name for is_type, name in names if is_type(data_type)), "string")
