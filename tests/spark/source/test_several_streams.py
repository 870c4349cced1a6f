"""Several streams in one source, through a real Spark; test_killed_drivers.py kills its driver."""

from collections import Counter

import pytest

from storage_core import drop_stream
from tests.spark.support.lab import first_line, sources
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, SourceLab

BOTH = {"subscribe": "a,b", "startingOffsets": "earliest"}
MATCHING = {"subscribePattern": "^[ab]", "startingOffsets": "earliest"}


def make(root, name, count, first=0, **options):
    """Make a stream of so many numbers, and leave it."""
    log = SourceLab(root, name)
    log.create(shards=2, **options)
    log.append(count, first)
    log.close()


def add(root, name, count, first):
    log = SourceLab(root, name)
    log.open()
    log.append(count, first)
    log.close()


@pytest.fixture
def two(lab):
    """Streams a and b: the numbers 0 to 3, and 10 to 13."""
    make(lab.log.root, "a", 4)
    make(lab.log.root, "b", 4, 10)
    return lab


def test_frame_shows_rows_of_all_streams_by_topic_and_partition(two):
    make(two.log.root, "s", 0, unit="s")
    seconds = SourceLab(two.log.root, "s")
    seconds.open()
    seconds.writer.append(FIRST_MS // 1000, 0, b"0")
    seconds.writer.commit()
    seconds.close()
    frame = two.read(subscribe="a,b,s")
    assert Counter(row.topic for row in frame.collect()) == {"a": 4, "b": 4, "s": 1}
    assert frame.select("topic", "partition", "offset").distinct().count() == 9
    assert two.read(subscribePattern="^[as]$").where("timestamp < '2024-01-01'").count() == 5
    assert two.numbers(assign={"a": [0], "b": [1]}) == [0, 2, 11, 13]


def test_query_over_several_streams_reports_each_and_takes_what_it_may(two):
    query = two.run(maxOffsetsPerTrigger=4, **BOTH)
    assert two.all_seen == [0, 1, 2, 3, 10, 11, 12, 13]
    reports = list(sources(query))
    assert [report["numInputRows"] for report in reports] == [4, 4]
    assert reports[0]["endOffset"]["a"] == reports[0]["endOffset"]["b"] == {"0": 1, "1": 1}
    assert reports[0]["latestOffset"] == {"a": {"0": 2, "1": 2}, "b": {"0": 2, "1": 2}}


def test_stream_that_matches_joins_a_running_query_once(two):
    query = two.start(**MATCHING)
    query.processAllAvailable()
    make(two.log.root, "a2", 2, 20)
    make(two.log.root, "other", 2, 90)
    query.processAllAvailable()
    query.stop()
    two.run(**MATCHING)
    assert two.all_seen == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21]


def test_query_goes_on_with_another_subscription(two):
    two.run(subscribe="a", startingOffsets="earliest")
    two.run(subscribe="a,b")
    assert two.seen == {0: [0, 1, 2, 3], 1: [10, 11, 12, 13]}
    assert "subscribe to it again" in first_line(two.fails(subscribe="a"))
    add(two.log.root, "a", 1, 4)
    two.run(subscribe="a", failOnDataLoss="false")
    assert two.seen[2] == [4]


def test_dropped_stream_is_told_in_the_first_line(two):
    two.run(**MATCHING)
    drop_stream(two.log.root, "b")
    said = first_line(two.fails(**MATCHING))
    assert "the stream was dropped under the query" in said
    assert "'b'" in said
    make(two.log.root, "a2", 1, 20)
    two.run(failOnDataLoss="false", **MATCHING)
    assert two.all_seen == [0, 1, 2, 3, 10, 11, 12, 13, 20]


def test_failed_batch_comes_again_with_the_same_rows_though_a_stream_has_joined(two):
    assert "the batch fails" in two.fails(failing=0, **MATCHING)
    failed = dict(two.batches)
    make(two.log.root, "b2", 2, 20)
    two.run(**MATCHING)
    assert two.batches[0] == failed[0]
    assert two.all_seen == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21]
