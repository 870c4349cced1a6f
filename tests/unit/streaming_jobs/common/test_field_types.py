"""An Avro schema's fields as Spark's columns: every type there is."""

import json
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, decode_batch
from streaming_jobs.common.field_types import field_columns
from tests.unit.storage_core.avro.plain_avro import random_record, random_value, written


def schema_of(*fields):
    parts = [{"name": name, "type": kind} for name, kind in fields]
    return AvroSchema.parse(json.dumps({"type": "record", "name": "R", "fields": parts}))


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def fixed(size, **more):
    return {"type": "fixed", "name": f"F{size}", "size": size, **more}


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("null", "void"),
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        (fixed(4), "binary"),
        (fixed(1000), "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": {"type": "map", "values": "long"}}, None),
        (POINT, "struct<x:int>"),
        ({"type": "record", "name": "Empty", "fields": []}, "struct<>"),
        (["null", "string"], "string"),
        (["int", "long"], "bigint"),
        (["null", "float", "double"], "double"),
        (["int", "string", POINT], "struct<member0:int,member1:string,member2:struct<x:int>>"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "bigint"),
        (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("long", "local-timestamp-nanos"), "bigint"),
        (logical("bytes", "decimal", precision=38, scale=3), "decimal(38,3)"),
        (logical("bytes", "decimal", precision=39, scale=3), "string"),
        (fixed(8, logicalType="decimal", precision=18, scale=4), "decimal(18,4)"),
        (logical("string", "uuid"), "string"),
        (fixed(16, logicalType="uuid"), "binary"),
        (fixed(12, logicalType="duration"), "binary"),
    ],
    ids=str,
)
def test_type_has_its_column(kind, shown):
    (column,) = field_columns(schema_of(("a", kind)))
    assert column.spark.simpleString() == (shown or "map<string,map<string,bigint>>")


def test_what_spark_is_handed_is_what_it_was_told_of_any_schema():
    for seed in range(300):
        chance = Random(seed)
        given = random_record(chance)
        schema = AvroSchema.parse(json.dumps(given))
        columns = field_columns(schema)
        told = StructType([StructField(one.name, one.spark) for one in columns])
        handed = pa.schema([(one.name, one.arrow) for one in columns])
        assert to_arrow_schema(told, timezone="UTC").equals(handed), seed
        body = written(given, random_value(chance, given), chance)
        table = decode_batch(pa.array([body, None]), schema).table
        for one in columns:
            cast = table.column(one.field).combine_chunks().cast(one.arrow)
            assert cast.type.equals(one.arrow), (seed, one)


def test_record_that_holds_itself_is_refused_unless_left_out():
    schema = schema_of(("a", "int"), ("next", ["null", "R"]))
    with pytest.raises(InvalidRequestError, match="leave it out of `columns`"):
        field_columns(schema)
    assert [one.name for one in field_columns(schema, ["a"])] == ["a"]
