"""Micro-batches by a real Spark: each lands once, whatever is replayed, deleted or in the way."""

import shutil

import pytest

from tests.spark.support.sink_lab import (
    BY_EACH_DOOR,
    QUERY_SECONDS_MAX,
    SinkLab,
    files_of,
    lab_by,
)


@pytest.fixture
def lab(request, spark, tmp_path):
    with lab_by(getattr(request, "param", "path"), spark, tmp_path) as lab:
        yield lab


@BY_EACH_DOOR
def test_batches_land_once_over_restarts_and_replays(lab):
    lab.feed(1, 2, 3)
    lab.feed(4)
    lab.run(queryName="q")
    lab.forget_commit(1)
    lab.feed(5)
    lab.run(queryName="q")
    assert (lab.stored, lab.staged) == ([1, 2, 3, 4, 5], [])


def test_query_with_a_mistake_goes_on_from_its_checkpoint_once_it_is_mended(lab):
    lab.feed(1)
    assert "unknown option shard" in lab.fails(shard=4)
    lab.feed(2)
    lab.run()
    assert lab.stored == [1, 2]


@BY_EACH_DOOR
def test_checkpoint_that_was_set_back_is_told_and_no_row_dropped_in_silence(lab):
    lab.feed(1)
    lab.feed(2)
    lab.run()
    lab.forget_batch(1)
    lab.unfeed(1)
    lab.feed(3, 4)
    said = lab.fails()
    assert "comes with 2 rows and is in the stream with 1 other rows" in said
    assert "put the later files back" in said
    assert (lab.stored, lab.staged) == ([1, 2], [])
    lab.delete_checkpoint()
    lab.run(where="primary > 2", resetQuery="true")
    assert lab.stored == [1, 2, 3, 4]


def test_stream_made_anew_under_a_query_is_told(lab):
    lab.feed(1)
    lab.run()
    shutil.rmtree(lab.root)
    lab.feed(2)
    assert "does not follow: the stream has no batch" in lab.fails()
    assert lab.stored == []


@BY_EACH_DOOR
def test_batch_that_met_a_live_writer_lands_once_when_the_query_goes_on(lab):
    lab.feed(1)
    lab.run()
    lab.feed(2)
    with lab.holding():
        assert "another writer holds the shard: process" in lab.fails(lockWait=0)
    assert (lab.stored, lab.staged) == ([1], [])
    lab.run()
    assert lab.stored == [1, 2]


def test_two_writes_in_one_foreach_batch_both_land(lab, spark):
    lab.feed(1)

    def write_twice(batch, _number):
        lab.write(batch)
        lab.write(batch.selectExpr("primary + 10 AS primary", "secondary", "value"))

    query = files_of(spark, lab.input).writeStream.foreachBatch(write_twice)
    query = query.option("checkpointLocation", str(lab.checkpoint))
    assert query.trigger(availableNow=True).start().awaitTermination(QUERY_SECONDS_MAX)
    assert lab.stored == [1, 11]


def test_foreach_batch_that_comes_again_lands_once_with_its_version(lab, spark):
    lab.feed(1)

    def write(batch, number):
        lab.write(batch, txnAppId="app", txnVersion=number)

    for _ in range(2):
        query = files_of(spark, lab.input).writeStream.foreachBatch(write)
        query = query.option("checkpointLocation", str(lab.checkpoint))
        assert query.trigger(availableNow=True).start().awaitTermination(QUERY_SECONDS_MAX)
        lab.forget_commit(0)
    assert lab.stored == [1]


def test_complete_mode_is_refused(lab, spark):
    lab.feed(1)
    counts = files_of(spark, lab.input).groupBy("primary").count()
    rows = counts.selectExpr("primary", "CAST(count AS INT) AS secondary", "X'00' AS value")
    writer = rows.writeStream.format("shardlog").options(**lab.options())
    writer = writer.outputMode("complete").option("checkpointLocation", str(lab.checkpoint))
    with pytest.raises(Exception, match="a log is only appended to"):
        writer.trigger(availableNow=True).start().awaitTermination(QUERY_SECONDS_MAX)


def test_two_queries_write_one_stream_at_once_and_each_row_lands_once(spark, tmp_path):
    labs = [SinkLab(spark, tmp_path / name) for name in ("one", "two")]
    for number, lab in enumerate(labs):
        lab.root = labs[0].root
        for batch in range(3):
            lab.feed(*range(number * 100 + batch * 10, number * 100 + batch * 10 + 10))
    queries = [lab.start(lockWait=60) for lab in labs]
    assert all(query.awaitTermination(QUERY_SECONDS_MAX) for query in queries)
    assert labs[0].stored == [*range(30), *range(100, 130)]
    assert labs[0].staged == []
