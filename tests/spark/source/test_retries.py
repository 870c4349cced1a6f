"""Spark itself runs a task again that failed half-way; rows come and land once all the same."""

import pytest
from pyspark.sql.functions import col, udf

from streaming_jobs.jobs.stream_query import start_to_end
from tests.spark.support.first_attempts import (
    LARGE_ROWS,
    ROWS_A_BATCH,
    FrailSource,
    large_values,
    raises_once,
)
from tests.spark.support.lab import TO_END, numbers_of
from tests.spark.support.sink_lab import QUERY_SECONDS_MAX, SinkLab, files_of

ROWS = 12_000
EARLY = {"startingOffsets": "earliest"}


@pytest.fixture
def sink(spark, tmp_path):
    """A sink whose tasks are handed ten megabytes at a time."""
    spark.dataSource.register(FrailSource)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", ROWS_A_BATCH)
    yield SinkLab(spark, tmp_path)
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.fixture
def source(lab):
    """Two shards of 6,000 rows, which reach Spark in batches of some thousand."""
    lab.spark.dataSource.register(FrailSource)
    lab.log.create(shards=2, block_records=1000)
    lab.log.append(ROWS)
    return lab


def failed(place):
    return sorted(path.name for path in place.glob("failed-*"))


def large(frame, lab, first_large=LARGE_ROWS):
    """Return rows of 100 kB each; the first attempt fails at one of them, if it is there."""
    value = udf(large_values(lab.root, first_large), "binary", useArrow=False)
    return frame.select("primary", "secondary", value("primary").alias("value"))


def run(frame, lab, sink="shardlog"):
    writer = frame.writeStream.format(sink).options(**lab.options())
    writer = writer.option("checkpointLocation", str(lab.checkpoint))
    assert start_to_end(writer).awaitTermination(QUERY_SECONDS_MAX)


def numbers(spark, begin, end):
    """Return numbers as rows, by one task."""
    return spark.range(begin, end, 1, 1).selectExpr("id AS primary", "CAST(id AS INT) AS secondary")


# --- the sink ---------------------------------------------------------------------------------


def test_batch_write_lands_once_though_a_task_failed_after_a_part(sink, spark, tmp_path):
    sink.write(large(numbers(spark, 0, LARGE_ROWS), sink, first_large=LARGE_ROWS - 10))
    assert failed(tmp_path) == ["failed-0"]
    assert (sink.stored, sink.staged) == (list(range(LARGE_ROWS)), [])


def test_micro_batch_lands_once_though_a_task_failed_after_a_part(sink, spark, tmp_path):
    sink.feed(*range(LARGE_ROWS))
    run(large(files_of(spark, sink.input), sink, first_large=LARGE_ROWS - 10), sink)
    assert failed(tmp_path) == ["failed-0"]
    assert (sink.stored, sink.staged) == (list(range(LARGE_ROWS)), [])


def test_batch_write_lands_once_though_a_worker_was_killed_after_a_part(sink, spark, tmp_path):
    sink.write([1])
    frame = large(numbers(spark, 0, LARGE_ROWS), sink)
    frame.write.format("frail").options(**sink.options()).mode("append").save()
    assert failed(tmp_path) == ["failed-0"]
    assert (sink.stored, sink.staged) == (sorted([1, *range(LARGE_ROWS)]), [])


def test_micro_batch_lands_once_though_a_worker_was_killed_after_a_part(sink, spark, tmp_path):
    sink.feed(*range(LARGE_ROWS))
    run(large(files_of(spark, sink.input), sink), sink, "frail")
    assert failed(tmp_path) == ["failed-0"]
    assert (sink.stored, sink.staged) == (list(range(LARGE_ROWS)), [])


# --- the source -------------------------------------------------------------------------------


def test_batch_read_gives_each_row_once_though_its_workers_were_killed(source, tmp_path):
    source.format = "frail"
    assert source.numbers() == list(range(ROWS))
    assert failed(tmp_path) == ["failed-0", "failed-1"]


def test_micro_batch_has_each_row_once_though_its_workers_were_killed(source, tmp_path):
    source.format = "frail"
    source.run(**EARLY)
    assert source.seen == {0: list(range(ROWS))}
    assert failed(tmp_path) == ["failed-0", "failed-1"]


def test_batch_read_gives_each_row_once_though_a_task_failed_behind_it(source, tmp_path):
    number = udf(raises_once(source.log.root, ROWS - 100), "long", useArrow=False)
    frame = source.read().select(number(col("value").cast("string").cast("long")).alias("value"))
    assert numbers_of(frame) == list(range(ROWS))
    assert failed(tmp_path) == ["failed-0"]


def test_rows_go_from_source_to_sink_once_though_a_task_failed_between(source, tmp_path):
    number = udf(raises_once(source.log.root, ROWS - 100), "long", useArrow=False)
    reader = source.spark.readStream.format("shardlog")
    options = {"maxOffsetsPerTrigger": ROWS // 2, **TO_END, **EARLY}
    frame = reader.options(**source.log.options(**options)).load()
    primary = number(col("value").cast("string").cast("long")).alias("primary")
    lab = SinkLab(source.spark, tmp_path / "sink")
    run(frame.select(primary, "secondary", "value"), lab)
    assert (lab.stored, lab.staged) == (list(range(ROWS)), [])
    assert failed(tmp_path) == ["failed-0"]
