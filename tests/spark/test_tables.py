"""Spark's catalog hands a table's options to no Python source: one line says so, and what works."""

import pytest
from pyspark.errors import PySparkException

from tests.spark.lab import NAME, first_line
from tests.spark.sink_lab import SinkLab

SAID = "make a view instead, CREATE TEMPORARY VIEW"


@pytest.fixture
def full(lab):
    """Ten rows; the tables of the test go with it."""
    lab.log.create(shards=2)
    lab.log.append(10)
    yield lab
    for name in ("made", "written"):
        lab.spark.sql(f"drop table if exists {name}")


def refused(lab, query):
    with pytest.raises(PySparkException) as raised:
        lab.spark.sql(query).collect()
    return first_line(raised.value)


def test_table_is_refused_when_it_is_made(full):
    given = f"(path '{full.log.root}', stream '{NAME}')"
    assert SAID in refused(full, f"create table made using shardlog options {given}")


def test_table_with_columns_of_its_own_is_read_with_options_or_refused(full):
    full.spark.sql("create table made (value binary) using shardlog")
    assert SAID in refused(full, "select * from made")
    assert SAID in refused(full, "insert into made values (X'00')")
    given = f"path = '{full.log.root}', stream = '{NAME}', columns = 'value'"
    query = f"select * from made with ({given})"  # noqa: S608 - the test's own words
    assert full.spark.sql(query).count() == 10


def test_rows_saved_as_a_table_are_in_the_stream(full, tmp_path):
    sink = SinkLab(full.spark, tmp_path / "sink")
    writer = sink.frame([1, 2]).write.format("shardlog").options(**sink.options())
    writer.mode("append").saveAsTable("written")
    assert sink.stored == [1, 2]
    assert SAID in refused(full, "select * from written")
