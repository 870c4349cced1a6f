"""Several streams in one source, through a real Spark; test_killed_drivers.py kills its driver."""

from collections import Counter

import pytest

from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, SourceLab

MATCHING = {"subscribePattern": "^[ab]", "startingOffsets": "earliest"}


def make(root, name, count, first=0, **options):
    """Make a stream of so many numbers, and leave it."""
    log = SourceLab(root, name)
    log.create(shards=2, **options)
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


def test_stream_that_matches_joins_a_running_query_once(two):
    query = two.start(**MATCHING)
    query.processAllAvailable()
    make(two.log.root, "a2", 2, 20)
    make(two.log.root, "other", 2, 90)
    query.processAllAvailable()
    query.stop()
    two.run(**MATCHING)
    assert two.all_seen == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21]
