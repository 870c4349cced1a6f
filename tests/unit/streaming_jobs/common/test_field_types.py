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


def test_what_spark_is_handed_is_what_it_was_told_of_any_schema():
    for seed in range(300):
        chance = Random(seed)
        schema_text = random_record(chance)
        schema = AvroSchema.parse(json.dumps(schema_text))
        columns = field_columns(schema)
        declared = StructType([StructField(column.name, column.spark) for column in columns])
        handed = pa.schema([(column.name, column.arrow) for column in columns])
        assert to_arrow_schema(declared, timezone="UTC").equals(handed), seed
        body = written(schema_text, random_value(chance, schema_text), chance)
        table = decode_batch(pa.array([body, None]), schema).table
        for column in columns:
            cast = table.column(column.field).combine_chunks().cast(column.arrow)
            assert cast.type.equals(column.arrow), (seed, column)


def test_record_that_holds_itself_is_refused_unless_left_out():
    schema = schema_of(("a", "int"), ("next", ["null", "R"]))
    with pytest.raises(InvalidRequestError, match="leave it out of `columns`"):
        field_columns(schema)
    assert [one.name for one in field_columns(schema, ["a"])] == ["a"]
