"""The columns of the source: Kafka's as Kafka's source has them, then the log's own.

    column         Spark                                   where a row has none
    key            binary                                  null, or the writer gave none
    value          binary                                  null is a tombstone
    topic          string                                  never; the stream where it is not Kafka's
    partition      int                                     never; the shard
    offset         bigint                                  never; the address
    timestamp      timestamp                               the primary, where rows are not Kafka's
                                                           and it is a time; null: none, or no
                                                           moment Spark can hold
    timestampType  int                                     never; -1 where there is no timestamp
    headers        array<struct<key:string,value:binary>>  null
    primary        bigint                                  never
    secondary      int                                     null where ids are not integer keys
    version        int                                     never; 0 unless the writer gave one
    late           boolean                                 never; late or ahead
    state          int                                     never; 0 normal 1 late 2 ahead 3 expired
    schema_id      int                                     null: the value came without a schema,
                                                           or no registry has it

With `valueFormat=avro` the value's fields stand before them, and `value` only where it is asked
for; `_corrupt_value`, last, has the bytes of values that cannot be read.

Spark compares the schema of the first batch with what was declared, and reads the rest blindly;
so there is one table, and both schemas are made from it. All are nullable, as Kafka's are.

A schema that comes from outside, `.schema(…)` of a query or the columns of a catalog's table, has
to be the source's own. What a table says beside names and types, as comments, changes no row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from storage_core import InvalidRequestError
from streaming_jobs.common.field_columns import CORRUPT_VALUE
from streaming_jobs.common.field_types import field_columns, parsed_schema
from streaming_jobs.common.timestamps import TIMESTAMP_US
from streaming_jobs.source.requests import FieldRules

HEADERS: Final = "headers"
HEADERS_ARROW: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its types, and what of a stored row it is made from."""

    spark: DataType
    arrow: pa.DataType
    stored: tuple[str, ...] = ()


_COLUMNS: Final[dict[str, Column]] = {
    "key": Column(BinaryType(), pa.binary(), ("key",)),
    "value": Column(BinaryType(), pa.binary(), ("payload",)),
    "topic": Column(StringType(), pa.string()),
    "partition": Column(IntegerType(), pa.int32()),
    "offset": Column(LongType(), pa.int64(), ("address",)),
    "timestamp": Column(TimestampType(), TIMESTAMP_US, ("timestamp", "timestamp_type", "primary")),
    "timestampType": Column(IntegerType(), pa.int32(), ("timestamp", "timestamp_type")),
    HEADERS: Column(ArrayType(_HEADER), HEADERS_ARROW, ("headers",)),
    "primary": Column(LongType(), pa.int64(), ("primary",)),
    "secondary": Column(IntegerType(), pa.int32(), ("secondary",)),
    "version": Column(IntegerType(), pa.int32(), ("version",)),
    "late": Column(BooleanType(), pa.bool_(), ("late",)),
    "state": Column(IntegerType(), pa.int32(), ("state",)),
    "schema_id": Column(IntegerType(), pa.int32(), ("schema_id",)),
}
_CORRUPT: Final = Column(BinaryType(), pa.binary(), ("payload",))


def known_columns() -> tuple[str, ...]:
    """Return the names of all columns."""
    return tuple(_COLUMNS)


def default_columns(*, has_headers: bool) -> tuple[str, ...]:
    """Return the names of the columns that come unless others are asked for."""
    return tuple(name for name in _COLUMNS if has_headers or name != HEADERS)


def spark_schema(columns: Sequence[str], fields: FieldRules | None = None) -> StructType:
    """Return the schema that is declared to Spark."""
    types = _types(columns, fields)
    return StructType([StructField(name, one.spark) for name, one in types.items()])


def arrow_schema(columns: Sequence[str], fields: FieldRules | None = None) -> pa.Schema:
    """Return the schema that every batch has."""
    return pa.schema([pa.field(name, one.arrow) for name, one in _types(columns, fields).items()])


def _types(columns: Sequence[str], fields: FieldRules | None) -> dict[str, Column]:
    own: Mapping[str, Column] = _COLUMNS
    if fields is not None:
        typed_columns = field_columns(parsed_schema(fields.schema), fields.columns)
        typed = {one.name: Column(one.spark, one.arrow) for one in typed_columns}
        own = {**_COLUMNS, CORRUPT_VALUE: _CORRUPT, **typed}
    return {name: own[name] for name in columns}


def arrow_type(column: str) -> pa.DataType:
    """Return the Arrow type of one of the log's own columns."""
    return _COLUMNS[column].arrow


def stored_columns(columns: Sequence[str], fields: FieldRules | None = None) -> tuple[str, ...]:
    """Return what of the stored rows these columns are made from; of fields nothing."""
    stored = (name for one in _types(columns, fields).values() for name in one.stored)
    return tuple(dict.fromkeys(stored))


def check_schema(
    declared: StructType, columns: Sequence[str], fields: FieldRules | None = None
) -> None:
    """Refuse a schema that is not what the source shows for these columns.

    Raises:
        InvalidRequestError: It is another; the message has both, and how to read all the same.
    """
    own = spark_schema(columns, fields)
    if _plain(declared) != _plain(own):
        message = (
            f"columns are declared as ({_described(declared)}), but the source has "
            f"({_described(own)}): leave .schema(…) out and choose columns with "
            f"option columns; {_of_table(declared)}"
        )
        raise InvalidRequestError(message)


def _of_table(declared: StructType) -> str:
    names = declared.fieldNames()
    if (
        names
        and set(names) <= set(known_columns())
        and _plain(declared) == _plain(spark_schema(names))
    ):
        return f"a table of these columns is read WITH (…, columns = '{','.join(names)}')"
    return "a table of such columns cannot be read, a view can"


def _plain(schema: StructType) -> list[tuple[object, ...]]:
    return [(field.name, field.dataType, field.nullable) for field in schema]


def _described(schema: StructType) -> str:
    columns = (
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
        for field in schema
    )
    return ", ".join(columns)
