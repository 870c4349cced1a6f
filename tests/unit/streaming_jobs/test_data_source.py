"""The data source where Spark finds it, and mistakes told where Spark lets them through."""

import os
import sys

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

import pyspark_shardlog
from storage_core import InvalidRequestError
from streaming_jobs.common.spark_errors import plain_errors
from streaming_jobs.common.spark_features import ReadAllAvailable
from streaming_jobs.source.spark_columns import spark_schema

_KINDS = {"binary": BinaryType(), "int": IntegerType(), "string": StringType()}


def source(lab, **options):
    return pyspark_shardlog.DefaultSource(CaseInsensitiveDict(lab.options(**options)))


def test_format_is_found_by_its_name():
    assert pyspark_shardlog.DefaultSource.name() == "shardlog"


def test_schema_is_what_the_options_ask_for(lab):
    lab.create()
    assert source(lab, columns="key,state").schema() == spark_schema(["key", "state"])


def test_options_of_kafkas_client_are_told_to_be_idle(lab, caplog):
    lab.create()
    source(lab, **{"kafka.bootstrap.servers": "x", "groupIdPrefix": "y"}).schema()
    assert caplog.messages == [
        "options for Kafka's source do nothing here: groupidprefix, kafka.bootstrap.servers"
    ]


def test_stream_that_is_not_there_is_told_by_schema(lab):
    lab.create()
    with pytest.raises(InvalidRequestError, match="no such stream"):
        source(lab, stream="other").schema()


def test_reader_takes_no_filters_from_spark(lab):
    lab.create()
    reader = source(lab).reader(source(lab).schema())
    assert type(reader).pushFilters is DataSourceReader.pushFilters


def test_schema_of_the_users_own_is_refused(lab):
    lab.create()
    with pytest.raises(InvalidRequestError, match=r"leave \.schema\(…\) out"):
        source(lab).reader(StructType())


def schema(declared):
    """Return a schema of simple types; Spark's own parser needs a JVM."""
    made = StructType()
    for column in declared.split(", "):
        name, kind, *null = column.split(" ", 2)
        made.add(name, _KINDS[kind], nullable=not null)
    return made


def refusal(lab, declared, **options):
    with pytest.raises(InvalidRequestError) as error:
        source(lab, **options).reader(schema(declared))
    return str(error.value)


def test_both_schemas_are_told_and_the_option_that_makes_them_one(lab):
    lab.create()
    said = refusal(lab, "key binary, value binary", columns="key")
    assert "(key binary, value binary), but the source has (key binary)" in said
    assert "WITH (…, columns = 'key,value')" in said


@pytest.mark.parametrize("declared", ["key int, value string", "weight int", "key binary not null"])
def test_table_that_no_option_makes_readable_is_told_so(lab, declared):
    lab.create()
    said = refusal(lab, declared)
    assert f"({declared})" in said
    assert "cannot be read, a view can" in said


def test_comments_on_columns_change_nothing(lab):
    lab.create()
    commented = StructType().add("key", "binary", metadata={"comment": "of the machine"})
    assert source(lab, columns="key").reader(commented) is not None


@pytest.mark.parametrize(
    "ask",
    [
        lambda reader: reader.initialOffset(),
        lambda reader: reader.getDefaultReadLimit(),
        lambda reader: reader.prepareForTriggerAvailableNow(),
        lambda reader: reader.latestOffset({}, ReadAllAvailable()),
        lambda reader: reader.partitions({}, {}),
        lambda reader: reader.read(None),
    ],
)
def test_mistake_of_a_stream_is_told_by_its_first_call(lab, ask):
    lab.create()
    reader = source(lab, endingOffsets="latest").streamReader(source(lab).schema())
    with pytest.raises(InvalidRequestError, match="a stream has no end"):
        ask(reader)


@pytest.mark.parametrize("is_worker", [True, False])
def test_traceback_is_left_out_in_workers_only(monkeypatch, is_worker):
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    if is_worker:
        monkeypatch.setitem(sys.modules, "pyspark.worker_util", sys)
    else:
        monkeypatch.delitem(sys.modules, "pyspark.worker_util", raising=False)
    error = InvalidRequestError("wrong")
    with pytest.raises(InvalidRequestError), plain_errors():
        raise error
    assert ("SPARK_HIDE_TRACEBACK" in os.environ) == is_worker
    os.environ.pop("SPARK_HIDE_TRACEBACK", None)
