"""Spark's catalog hands a table's options to no Python source: one line says so, and what works."""

import re

import pytest
from pyspark.errors import PySparkException

from tests.spark.support.lab import NAME, first_line
from tests.spark.support.sink_lab import SinkLab

SAID = "make a view instead, CREATE TEMPORARY VIEW"


def refused(lab, query):
    with pytest.raises(PySparkException) as raised:
        lab.spark.sql(query).collect()
    return first_line(raised.value)


def test_table_is_refused_when_it_is_made(full):
    options = f"(path '{full.log.root}', stream '{NAME}')"
    assert SAID in refused(full, f"create table made using shardlog options {options}")


def test_table_with_columns_of_its_own_is_read_with_options_or_refused(full):
    full.spark.sql("create table made (value binary) using shardlog")
    assert SAID in refused(full, "select * from made")
    assert SAID in refused(full, "insert into made values (X'00')")
    options = f"path = '{full.log.root}', stream = '{NAME}', columns = 'value'"
    query = f"select * from made with ({options})"
    assert full.spark.sql(query).count() == 10


def test_view_with_columns_that_the_sink_takes_is_inserted_into(full):
    options = f"path '{full.log.root}', stream '{NAME}', columns 'primary,secondary,value'"
    full.log.close()
    full.spark.sql(f"create temporary view seen using shardlog options ({options})")
    full.spark.sql("insert into seen values (5, 1, X'AA')")
    full.spark.sql("insert into seen (value, secondary, primary) values (X'BB', 2, 6)")
    rows = full.spark.sql("select * from seen where primary < 7 order by primary").collect()
    assert [tuple(row) for row in rows] == [(5, 1, b"\xaa"), (6, 2, b"\xbb")]


def as_printed(said, verb, *words):
    """Return a query that a refusal advises, with words where it leaves them open."""
    match = re.search(rf"{verb} .*?\)( VALUES …)?", said)
    assert match is not None
    query = match.group()
    for word in words:
        query = query.replace("…", str(word), 1)
    assert "…" not in query
    return query


def test_each_query_that_a_refusal_advises_runs_as_it_is_printed(full):
    full.spark.sql("create table made (primary bigint, secondary int, value binary) using shardlog")
    said = refused(full, "select * from made")
    place = (full.log.root, NAME)
    full.spark.sql(as_printed(said, "CREATE", "seen", *place))
    assert full.spark.sql("select * from seen").count() == 10
    read = as_printed(said, "SELECT", "made", *place, "primary,secondary,value")
    assert full.spark.sql(read).count() == 10
    full.log.close()
    full.spark.sql(as_printed(said, "INSERT", "made", *place, "(5000L, 1, X'00')"))
    assert full.spark.sql(read).count() == 11


def test_rows_saved_as_a_table_are_in_the_stream(full, tmp_path):
    sink = SinkLab(full.spark, tmp_path / "sink")
    writer = sink.frame([1, 2]).write.format("shardlog").options(**sink.options())
    writer.mode("append").saveAsTable("written")
    assert sink.stored == [1, 2]
    assert SAID in refused(full, "select * from written")
