"""A reset under a running query: forward it goes on behind the gap, backward it ends with an error.

A query never sees rows of two logs of one shard.
"""

import pytest
from pyspark.errors import StreamingQueryException

from storage_core import Stream
from tests.spark.support.lab import NAME, SECONDS_MAX
from tests.waiting import await_that

EARLY = {"startingOffsets": "earliest"}


@pytest.fixture
def topic(lab):
    """A topic's stream of two shards, with rows at 0 to 9 of each."""
    lab.log.create_topic({0: 0, 1: 0})
    for shard in (0, 1):
        put(lab, shard, range(10))
    return lab


def put(lab, shard, offsets):
    """Commit rows whose values tell shard and offset."""
    values = [b"%d" % (1000 * shard + at) for at in offsets]
    lab.log.put(shard, list(offsets), payload=values)


def numbers(shard, *spans):
    return [1000 * shard + at for start, end in spans for at in range(start, end)]


def reset_back(lab, shard, start):
    """Archive a shard's log, and store what Kafka still has from an offset on."""
    lab.log.close()
    Stream.archive_shards(lab.log.root, NAME, {shard: start})
    lab.log.open()
    put(lab, shard, range(start, 15))


def reset_forward(lab, shard, end):
    lab.log.writer.skip(shard, end, source={"next": end})
    put(lab, shard, range(end, end + 5))


def await_seen(lab, expected):
    await_that(lambda: lab.all_seen == sorted(expected), "the query sees all", SECONDS_MAX)


def test_running_query_goes_on_behind_the_gap_of_a_reset_forward(topic):
    query = topic.start(**EARLY)
    await_seen(topic, [*numbers(0, (0, 10)), *numbers(1, (0, 10))])
    reset_forward(topic, 0, 20)
    await_seen(topic, [*numbers(0, (0, 10), (20, 25)), *numbers(1, (0, 10))])
    query.stop()
    assert topic.log.writer.gaps()[0] == [(10, 20)]
    topic.run(**EARLY)
    assert topic.all_seen == sorted([*numbers(0, (0, 10), (20, 25)), *numbers(1, (0, 10))])


def test_running_query_ends_with_an_error_at_a_reset_backward(topic):
    before = sorted([*numbers(0, (0, 10)), *numbers(1, (0, 10))])
    query = topic.start(**EARLY)
    await_seen(topic, before)
    reset_back(topic, 0, 5)
    # Which of both depends on whether it had the old log open at that moment.
    with pytest.raises(StreamingQueryException, match=r"re-created|was reset, or began"):
        query.awaitTermination(SECONDS_MAX)
    assert topic.all_seen == before
    assert "re-created" in topic.fails(**EARLY)
    assert "re-created" in topic.fails(failOnDataLoss=False, **EARLY)
    assert topic.all_seen == before


def test_query_with_a_new_checkpoint_reads_the_new_log_alone(topic, tmp_path):
    """Spark's workers have the old log open from the query before."""
    topic.run(**EARLY)
    reset_back(topic, 0, 5)
    topic.checkpoint, topic.batches = tmp_path / "another", {}
    topic.run(**EARLY)
    assert topic.all_seen == sorted([*numbers(0, (5, 15)), *numbers(1, (0, 10))])
    assert topic.numbers() == topic.all_seen
