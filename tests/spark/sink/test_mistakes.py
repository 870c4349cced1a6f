"""Usual mistakes of who comes from files or Kafka: none lands a row, and a line says why.

Of some Spark itself says so before it asks the sink; docs/SPARK.md has what to write instead.
"""

import pytest
from pyspark.errors import PySparkException

from tests.spark.support.lab import first_line
from tests.spark.support.sink_lab import SinkLab, files_of


@pytest.fixture
def lab(spark, tmp_path):
    lab = SinkLab(spark, tmp_path)
    lab.write([1])
    return lab


def writer(lab, mode="append"):
    return lab.frame([2]).write.format("shardlog").options(**lab.options()).mode(mode)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda lab: writer(lab).partitionBy("secondary").save(), "partitioning"),
        (lambda lab: writer(lab).bucketBy(4, "secondary").save(), "does not support bucketBy"),
        (lambda lab: writer(lab, "ignore").save(), 'in the "Ignore" mode'),
        (lambda lab: writer(lab, "errorifexists").save(), 'in the "ErrorIfExists" mode'),
        (lambda lab: writer(lab, "overwrite").save(), "a log is only appended to"),
    ],
)
def test_batch_that_is_written_as_files_are_is_refused_in_a_line(lab, write, said):
    with pytest.raises(PySparkException) as raised:
        write(lab)
    assert said in first_line(raised.value)
    assert (lab.stored, lab.staged) == ([1], [])


def test_query_in_update_mode_is_refused(lab, spark):
    lab.feed(2)
    query = files_of(spark, lab.input).writeStream.format("shardlog").options(**lab.options())
    query = query.outputMode("update").option("checkpointLocation", str(lab.checkpoint))
    with pytest.raises(Exception, match="shardlog does not support Update mode"):
        query.trigger(availableNow=True).start().awaitTermination()
    assert lab.stored == [1]


def test_query_partitioned_by_a_column_lands_its_rows_where_they_belong(lab, spark):
    """Spark tells no sink of it: a row's shard is the log's."""
    lab.feed(2)
    query = files_of(spark, lab.input).writeStream.format("shardlog").options(**lab.options())
    query = query.partitionBy("secondary").option("checkpointLocation", str(lab.checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    assert lab.stored == [1, 2]
