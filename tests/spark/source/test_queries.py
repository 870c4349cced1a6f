"""Queries: every row once, over restarts at each stage of a batch, moving tips and new shards."""

import json

import pytest
from pyspark.sql.functions import window

from storage_core import StreamReader
from streaming_jobs.common.spark_features import HAS_ADMISSION
from tests.spark.support.lab import NAME, SECONDS_MAX, first_line, sources

EARLY = {"startingOffsets": "earliest"}


def test_query_takes_as_much_as_it_may_and_reports_it(full):
    query = full.run(maxOffsetsPerTrigger=4, **EARLY)
    assert full.all_seen == list(range(10))
    reports = list(sources(query))
    assert [report["numInputRows"] for report in reports] == [4, 4, 2]
    assert [report["endOffset"][NAME] for report in reports][:2] == [
        {"0": 2, "1": 2},
        {"0": 4, "1": 4},
    ]
    # As docs/SPARK.md asks how far behind a query is.
    end = json.loads(query.lastProgress.json)["sources"][0]["endOffset"][NAME]
    with StreamReader.open(full.log.root, NAME) as reader:
        assert {str(shard): last for shard, last in reader.committed().items()} == end
    if HAS_ADMISSION:
        latest = {str(report["latestOffset"][NAME]) for report in reports}
        assert latest == {str({"0": 5, "1": 5})}


def test_available_now_ends_in_batches_of_the_limit_or_after_one(full):
    # PySpark 4.0 and 4.1 know no end of a run, and do one batch; the next run does the next one.
    for _ in range(1 if HAS_ADMISSION else 3):
        assert full.all_seen != list(range(10))
        full.run_now(maxOffsetsPerTrigger=4, **EARLY)
    assert [len(rows) for rows in full.seen.values()] == [4, 4, 2]
    assert full.all_seen == list(range(10))


def test_restarted_query_goes_on_where_it_stopped(full):
    full.run(**EARLY)
    full.run(**EARLY)
    full.log.append(5, first=10)
    full.run(**EARLY)
    assert full.seen == {0: list(range(10)), 1: list(range(10, 15))}


def test_failed_batch_comes_again_with_the_same_rows_in_the_same_tasks(full):
    options = {"maxRecordsPerPartition": 2, **EARLY}
    assert "the batch fails" in full.fails(failing=0, **options)
    failed = dict(full.batches)
    full.log.append(10, first=10)
    full.run(**options)
    assert full.batches[0] == failed[0]
    assert full.all_seen == list(range(20))


def test_failed_batch_0_is_the_same_again_wherever_the_query_would_begin_by_then(full):
    full.fails(failing=0, **EARLY)
    full.log.append(5, first=10)
    # Now it would begin behind all rows.
    full.fails(failing=0)
    assert full.seen == {0: list(range(10))}
    full.run()
    assert full.seen == {0: list(range(10)), 1: list(range(10, 15))}


@pytest.mark.parametrize("batch", [0, 2])
def test_batch_whose_commit_never_came_is_the_same_again(full, batch):
    options = {"maxOffsetsPerTrigger": 4, **EARLY}
    full.run(**options)
    for forgotten in range(batch, 3):
        full.forget_commit(forgotten)
    before = dict(full.batches)
    full.log.append(2, first=10)
    full.run(**options)
    assert {n: full.batches[n] for n in before} == before
    assert full.all_seen == list(range(12))


def test_rows_appended_while_a_query_runs_are_seen_once(full):
    query = full.start(maxOffsetsPerTrigger=50, **EARLY)
    for first in range(10, 510, 20):
        full.log.append(20, first=first)
        assert query.isActive, query.exception()
    query.processAllAvailable()
    query.stop()
    assert full.all_seen == list(range(510))


def test_job_written_for_kafkas_source_runs_when_only_the_format_changes(lab):
    lab.log.create_topic({0: 0, 1: 0})
    lab.log.put(0, [0, 1, 2])
    lab.log.put(1, [0, 5])
    frame = (
        lab.spark.readStream.format("shardlog")
        .option("path", str(lab.log.root))
        .option("kafka.bootstrap.servers", "broker:9092")
        .option("subscribe", NAME)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("cast(value as string) as value", "timestamp", "partition", "offset")
        .groupBy(window("timestamp", "2 milliseconds"))
        .count()
    )
    query = frame.writeStream.format("memory").queryName("by_window").outputMode("complete")
    assert query.trigger(availableNow=True).start().awaitTermination(SECONDS_MAX)
    counts = lab.spark.sql("select count from by_window order by window.start").collect()
    assert [row[0] for row in counts] == [3, 1, 1]


def test_mistake_that_only_a_stream_makes_is_told_in_its_first_line(full):
    said = full.fails(endingOffsets="latest")
    assert "option endingOffsets is for batch reads" in first_line(said)
