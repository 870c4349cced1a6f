"""Both schemas of the source come from one table and are those that Spark compares."""

from pyspark.sql.pandas.types import to_arrow_schema

from streaming_jobs.source.spark_columns import (
    arrow_schema,
    default_columns,
    known_columns,
    spark_schema,
)

KAFKAS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_arrow_schema_is_what_spark_makes_of_its_own():
    columns = known_columns()
    assert arrow_schema(columns).equals(to_arrow_schema(spark_schema(columns), timezone="UTC"))


def test_kafkas_columns_come_first_in_its_order():
    assert list(default_columns(has_headers=False)[:7]) == KAFKAS
    assert list(default_columns(has_headers=True)[:8]) == [*KAFKAS, "headers"]


def test_types_of_kafkas_columns_are_kafkas():
    assert spark_schema([*KAFKAS, "headers"]).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
