"""Whether a shard begins from the lake: what the table, the log here and Kafka say decides."""

import pytest

from connectors.group.home_mark import HomeMark
from connectors.ingest.assignment.lake_start import (
    KafkaSide,
    begins_from_lake,
    is_alone,
    kafka_side,
    unpublished,
    unreachable,
)
from connectors.kafka import Place
from storage_core.lake import LakePosition

THEIRS = HomeMark("root-b", "lineage-b")
PLACE = ("orders", 3)


def position(published, *, is_own=False):
    return LakePosition(3, published, is_own)


@pytest.mark.parametrize("shard_next", [None, 0, 100])
def test_shard_that_no_table_has_goes_on_as_it_is_or_is_born(shard_next):
    assert not begins_from_lake(None, shard_next)


def test_shard_that_is_not_here_begins_from_the_lake():
    assert begins_from_lake(position(100), None)


@pytest.mark.parametrize(("shard_next", "expected"), [(99, True), (100, False), (101, False)])
def test_own_log_goes_on_unless_the_table_has_more(shard_next, expected):
    assert begins_from_lake(position(100, is_own=True), shard_next) is expected


@pytest.mark.parametrize("shard_next", [0, 100, 500])
def test_log_that_another_has_followed_is_a_cache(shard_next):
    assert begins_from_lake(position(100), shard_next)


@pytest.mark.parametrize(
    ("shard_next", "low", "expected"),
    [(150, 101, True), (150, 200, True), (101, 101, True), (150, 100, False), (100, 101, False)],
)
def test_log_is_alone_that_has_rows_which_neither_the_lake_nor_kafka_has(shard_next, low, expected):
    assert is_alone(position(100), shard_next, KafkaSide(low)) is expected


def test_shard_that_is_not_here_is_no_log_that_is_alone():
    assert not is_alone(position(100), None, KafkaSide(101))


@pytest.mark.parametrize("low", [0, 99, 100])
def test_rows_that_kafka_has_from_there_on_are_reached(low):
    assert unreachable(100, KafkaSide(low, 120, THEIRS), PLACE) is None


def test_range_that_nobody_has_is_named_with_who_may_have_it():
    lost = unreachable(100, KafkaSide(130, 150, THEIRS), PLACE)
    assert lost is not None
    assert (lost.stream, lost.shard, lost.start, lost.end) == ("orders", 3, 100, 130)
    for named in ("root root-b", "shardlog lake publish", "on_out_of_range=skip"):
        assert named in str(lost)


def test_range_that_nobody_has_is_told_where_nobody_knows_who_had_it():
    assert "the root that stored them" in str(unreachable(100, KafkaSide(130), PLACE))


def test_partition_of_which_nothing_is_published_is_taken_whole_from_kafka():
    assert unpublished(KafkaSide(0, 50, THEIRS), PLACE) is None


def test_partition_of_which_nothing_is_published_and_kafka_lacks_some_is_refused():
    lost = unpublished(KafkaSide(20, 50, THEIRS), PLACE)
    assert "root root-b stored this partition up to 50" in str(lost)
    assert lost is not None
    assert (lost.start, lost.end) == (0, 20)


def test_what_kafka_says_has_the_mark_beside_the_offset():
    assert kafka_side(7, Place(50, metadata=THEIRS.encode())) == KafkaSide(7, 50, THEIRS)
    assert kafka_side(7, Place(50, metadata="a tool's")) == KafkaSide(7, 50)
    assert kafka_side(7, None) == KafkaSide(7)
