"""An Avro schema's fields as Spark's columns: their types, for the source and the sink.

Types are those of the fields' Arrow columns (storage_core/avro), where Spark has them:

    Arrow                              Spark                        unlike Arrow, since
    null boolean int long float        void boolean int bigint
    double string binary date          float double string binary
                                       date
    fixed-size binary                  binary                       Spark has no such type
    timestamp, ms or us, in UTC        timestamp                    Spark counts microseconds
    timestamp, ms or us, of no zone    timestamp_ntz                as above
    timestamp, ns                      bigint, nanoseconds          else their last digits were lost
    time, ms; us                       int, ms; bigint, us          Spark 4.3 writes no TIME
    decimal of 38 digits; of more      decimal; string              Spark has no more than 38
    list, struct, map                  array, struct, map           of these types

All are nullable, since a tombstone has null in each. The Arrow types here are what Spark is handed,
and equal what PySpark makes of the declared types, to the names of list items.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from storage_core import InvalidRequestError
from streaming_jobs.common.field_columns import columns_of, fields_by_column
from streaming_jobs.common.timestamps import TIMESTAMP_US

if TYPE_CHECKING:
    from storage_core.avro import AvroSchema

_SCHEMAS_KEPT_MAX: Final = 64
_DECIMAL_DIGITS_MAX: Final = 38
_PLAIN: Final[Mapping[pa.DataType, DataType]] = {
    pa.null(): NullType(),
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    TIMESTAMP_US: TimestampType(),
    pa.timestamp("us"): TimestampNTZType(),
}
# What Spark is handed in place of types that it has none for.
_INSTEAD: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.time32("ms"): pa.int32(),
    pa.time64("us"): pa.int64(),
    pa.timestamp("ms", "UTC"): TIMESTAMP_US,
    pa.timestamp("ms"): pa.timestamp("us"),
    pa.timestamp("ns", "UTC"): pa.int64(),
    pa.timestamp("ns"): pa.int64(),
}
_types: Any = pa  # the stubs do not tell one kind of type from another


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A field as a column.

    Attributes:
        name: The column's.
        field: The field's, in the schema.
        spark: The type declared to Spark.
        arrow: What Spark is handed.
    """

    name: str
    field: str
    spark: DataType
    arrow: pa.DataType


@lru_cache(maxsize=_SCHEMAS_KEPT_MAX)
def parsed_schema(text: str) -> "AvroSchema":
    """Return the schema of a text that stands alone, as tasks are sent it; parsed once."""
    from storage_core.avro import AvroSchema  # noqa: PLC0415 - who reads bytes does without

    return AvroSchema.parse(text)


def field_columns(schema: "AvroSchema", wanted: Iterable[str] | None = None) -> list[FieldColumn]:
    """Return the columns of a schema's fields.

    Args:
        schema: The schema.
        wanted: The columns that are asked for, in this order; all if None.

    Raises:
        InvalidRequestError: One is no field's, two would be the same, or a field has no type: a
            record that holds itself.
    """
    fields = fields_by_column(schema, wanted)
    kinds = schema.arrow_schema(fields.values())
    return [
        FieldColumn(name, field, *shown_types(kinds.field(field).type))
        for name, field in fields.items()
    ]


def columns_of_all(schema: "AvroSchema", first: Iterable[str] = ()) -> list[FieldColumn]:
    """Return the columns of all of a schema's fields that can be one, some of them first."""
    names = list(dict.fromkeys((*first, *columns_of(schema))))
    try:
        return field_columns(schema, names)
    except InvalidRequestError:
        return [one for name in names for one in _column_if_any(schema, name)]


def _column_if_any(schema: "AvroSchema", name: str) -> list[FieldColumn]:
    try:
        return field_columns(schema, [name])
    except InvalidRequestError:
        return []


def shown_types(kind: pa.DataType) -> tuple[DataType, pa.DataType]:
    """Return the type by which Spark shows a field's Arrow type, and the one it is handed."""
    if pa.types.is_nested(kind):
        return _nested(kind)
    if pa.types.is_decimal(kind):
        digits, scale = _parts_of(kind).precision, _parts_of(kind).scale
        fits = digits <= _DECIMAL_DIGITS_MAX
        return (DecimalType(digits, scale), kind) if fits else (StringType(), pa.string())
    if pa.types.is_fixed_size_binary(kind):
        return BinaryType(), pa.binary()
    arrow = _INSTEAD.get(kind, kind)
    return _PLAIN[arrow], arrow


def _nested(kind: pa.DataType) -> tuple[DataType, pa.DataType]:
    if pa.types.is_map(kind):
        spark, arrow = shown_types(_parts_of(kind).item_type)
        item = pa.field("value", arrow)
        return MapType(StringType(), spark), _types.map_(pa.string(), item)
    if pa.types.is_list(kind):
        spark, arrow = shown_types(_parts_of(kind).value_type)
        return ArrayType(spark), pa.list_(pa.field("element", arrow))
    members: list[Any] = list(_parts_of(kind))
    typed = [(each.name, *shown_types(each.type)) for each in members]
    struct = StructType([StructField(name, one) for name, one, _ in typed])
    return struct, pa.struct([pa.field(name, one) for name, _, one in typed])


def _parts_of(kind: pa.DataType) -> Any:  # noqa: ANN401 - what it has depends on the kind
    return kind
