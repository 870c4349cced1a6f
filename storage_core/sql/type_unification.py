"""Type unification: one type for a column whose parts have several, without loss of values.

Parts and hot rows are united by column name, and each engine has its own rules for different types:
one cuts decimals, another rounds integers. So the type is chosen here, for SQL and Spark:

    integers, booleans            the widest integer; true is 1
    integers, floats, decimals    double: integers above 2^53 become the nearest, as in Avro; with
                                  decimals of more than 15 digits string
    decimals, integers            the decimal that holds all; above 38 digits string
    strings and bytes             bytes
    strings and anything else     string
    times of several units        microseconds
    structs, lists, maps          of the unified types inside; structs have the fields of all
"""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.format.keys import INT64_MAX
from storage_core.format.window import UNITS_PER_SECOND, Unit
from storage_core.sql.field_columns import FieldColumn, FieldColumns, engine_type, type_class

# The timestamps that both engines have, in microseconds from the epoch.
TIME_US_MAX: Final = 9_223_372_022_400_000_000
_DECIMAL_DIGITS_MAX: Final = 38
# Decimal digits that a double keeps.
_DOUBLE_DIGITS: Final = 15
# The digits of integers.
_INTEGER_DIGITS: Final[dict[pa.DataType, int]] = {pa.bool_(): 1, pa.int32(): 10, pa.int64(): 19}
_FLOATS: Final = (pa.float32(), pa.float64())
_types: Any = pa.types
Types = tuple[pa.DataType, ...]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a table that an output column is made of.

    Attributes:
        name: Its name.
        type: Its type.
        unit: The unit of an integer that becomes a timestamp.
    """

    name: str
    type: pa.DataType
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a query.

    Attributes:
        name: Its name.
        sources: The columns of a table that it is made of; each row has its value in one of them.
            Without any it is null in all rows of the table.
        types: Its types in all tables.
    """

    name: str
    sources: tuple[SourceColumn, ...]
    types: Types

    @property
    def is_unchanged(self) -> bool:
        """Whether it is a column of the table as it is."""
        if len(self.sources) != 1:
            return False
        (column,) = self.sources
        return self.name == column.name and needs_no_cast(column.type, self.types)


def time_bounds(unit: Unit) -> int:
    """Return the largest number in a unit that is a timestamp in both engines."""
    return min(TIME_US_MAX * UNITS_PER_SECOND[unit] // 10**6, INT64_MAX - 1000)


def unified_type(types: Types) -> pa.DataType:
    """Return the one type of values of several types that one column accepts."""
    distinct = tuple(dict.fromkeys(map(engine_type, types)))
    nested = _nested_type(distinct)
    if nested is not None:
        return nested
    if len(distinct) == 1:
        return distinct[0]
    classes = {type_class(data_type) for data_type in distinct}
    if "string" in classes:
        return pa.binary() if classes == {"string", "bytes"} else pa.string()
    if classes == {"number"}:
        return _number(distinct)
    # Times of several units.
    return (
        pa.time64("us")
        if classes == {"time"}
        else pa.timestamp("us", _untyped_type(distinct[0]).tz)
    )


def needs_no_cast(data_type: pa.DataType, types: Types) -> bool:
    """Tell whether values of a type have the unified type already."""
    return engine_type(data_type) == engine_type(unified_type(types))


def struct_fields(types: Types) -> list[FieldColumn]:
    """Return the fields of the struct that several struct types unify to."""
    columns = FieldColumns()
    for data_type in types:
        columns.add(_untyped_type(data_type))
    return list(columns)


def field_in(struct_type: pa.DataType, target: FieldColumn) -> "pa.Field[Any] | None":
    """Return the field of a struct that is a field of the unified struct; None if none is."""
    fields: list[pa.Field[Any]] = list(_untyped_type(struct_type))
    for field in fields:
        if field.name == target.field and engine_type(field.type) in target.types:
            return field
    return None


def item_types(types: Types) -> Types:
    """Return the types of the items of lists, or of the values of maps."""
    return tuple(
        dict.fromkeys(
            _untyped_type(data_type).item_type
            if _types.is_map(data_type)
            else _untyped_type(data_type).value_type
            for data_type in types
        )
    )


def _nested_type(types: Types) -> pa.DataType | None:
    if all(map(_types.is_struct, types)):
        fields = [
            pa.field(column.name, unified_type(column.types)) for column in struct_fields(types)
        ]
        return pa.struct(fields)
    if all(map(_types.is_map, types)):
        return pa.map_(pa.string(), unified_type(item_types(types)))
    if all(map(_types.is_list, types)):
        return pa.list_(unified_type(item_types(types)))
    return None


def _number(types: Types) -> pa.DataType:
    decimals = [_untyped_type(data_type) for data_type in types if _types.is_decimal(data_type)]
    if any(data_type in _FLOATS for data_type in types):
        is_exact = all(decimal.precision <= _DOUBLE_DIGITS for decimal in decimals)
        return pa.float64() if is_exact else pa.string()
    integer_digits = max(
        (_INTEGER_DIGITS[data_type] for data_type in types if data_type in _INTEGER_DIGITS),
        default=0,
    )
    if not decimals:
        return pa.int64() if integer_digits == _INTEGER_DIGITS[pa.int64()] else pa.int32()
    scale = max(decimal.scale for decimal in decimals)
    digits = scale + max(
        integer_digits, *(decimal.precision - decimal.scale for decimal in decimals)
    )
    return pa.decimal128(digits, scale) if digits <= _DECIMAL_DIGITS_MAX else pa.string()


def _untyped_type(data_type: pa.DataType) -> Any:  # noqa: ANN401 - what it has depends on the kind
    return data_type
