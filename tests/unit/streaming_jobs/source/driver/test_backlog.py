"""Queries over several streams: what joins, what goes, and how much of each a batch takes."""

import json
from datetime import timedelta

import pytest

from pyspark_shardlog import snapshot
from storage_core import ForeignDataError, InvalidRequestError, LostRangeError, drop_stream
from streaming_jobs.common.spark_features import ReadAllAvailable, ReadMaxRows
from streaming_jobs.source.options import parse_source_options
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, SourceLab, numbers_of, rows_of
from tests.unit.streaming_jobs.source.test_begun_expired import KEPT, expire, put

ALL = ReadAllAvailable()
BOTH = {"subscribe": "a,b", "startingOffsets": "earliest"}
MATCHING = {"subscribePattern": "^[ab]", "startingOffsets": "earliest"}


class Streams:
    """Streams of one root by name, and a query over them as Spark calls it."""

    def __init__(self, root):
        self.root = root
        self.logs = {}

    def make(self, name, count=0, first=0, **options):
        log = self.logs[name] = SourceLab(self.root, name)
        log.create(**options)
        log.append(count, first)
        return log

    def make_aged(self, name):
        """Make a stream of the numbers 20 to 23, of which 20 and 21 have expired."""
        aged = self.make(name, shards=1, retention=timedelta(hours=KEPT))
        put(aged, 0, [20, 21])
        put(aged, 3, [22, 23])
        assert expire(aged, 1) == 1

    def drop(self, name):
        self.logs.pop(name).close()
        drop_stream(self.root, name)

    def close(self):
        for log in self.logs.values():
            log.close()

    def query(self, start=None, **options):
        return Query(SourceLab(self.root).tail(**options), start)


class Query:
    """One run of a query: where it stands, and what its batches read."""

    def __init__(self, tail, start=None):
        self.tail = tail
        self.offset = tail.initialOffset() if start is None else start

    def batch(self, limit=ALL):
        """Return the numbers that the next batch reads, None where there is none."""
        end = json.loads(json.dumps(self.tail.latestOffset(self.offset, limit)))
        if end == self.offset:
            return None
        numbers = numbers_of(self.tail, self.tail.partitions(self.offset, end))
        self.offset = end
        return numbers


@pytest.fixture
def streams(tmp_path):
    made = Streams(tmp_path / "root")
    yield made
    made.close()


@pytest.fixture
def two(streams):
    """Streams a and b: the numbers 0 to 3, and 10 to 13."""
    streams.make("a", 4)
    streams.make("b", 4, 10)
    return streams


@pytest.mark.parametrize("options", [BOTH, MATCHING], ids=["names", "pattern"])
def test_batches_of_several_streams_follow_each_other(two, options):
    query = two.query(**options)
    assert query.batch() == [0, 1, 2, 3, 10, 11, 12, 13]
    two.logs["b"].append(2, 14)
    assert query.batch() == [14, 15]
    assert query.batch() is None
    assert query.offset["@"]["v"] == 2


def test_rows_say_which_stream_they_are_of_and_times_are_of_its_own_unit(streams):
    streams.make("ms", 1)
    streams.make("s", unit="s").writer.append(FIRST_MS // 1000, 1, b"1")
    streams.logs["s"].writer.commit()
    tail = streams.query(subscribe="ms,s", startingOffsets="earliest").tail
    start = tail.initialOffset()
    rows = rows_of(tail, tail.partitions(start, tail.latestOffset(start, ALL)))
    assert sorted(row["topic"] for row in rows) == ["ms", "s"]
    assert {row["timestamp"].timestamp() for row in rows} == {FIRST_MS / 1000}


def test_small_shards_of_several_streams_share_a_task(two):
    tail = two.query(**BOTH).tail
    start = tail.initialOffset()
    assert len(tail.partitions(start, tail.latestOffset(start, ALL))) == 1


def test_limit_is_shared_out_by_backlog_over_all_streams(streams):
    streams.make("a", 90, shards=1)
    streams.make("b", 10, 100, shards=1)
    query = streams.query(**BOTH)
    assert len(query.batch(ReadMaxRows(20))) == 20
    assert (query.offset["a"], query.offset["b"]) == ({"0": 18}, {"0": 2})


@pytest.mark.parametrize("begins", ["earliest", "latest"])
def test_stream_that_matches_joins_a_running_query_with_its_first_row(two, begins):
    query = two.query(**{**MATCHING, "startingOffsets": begins})
    query.batch()
    two.make("a2", 2, 20)
    two.make("other", 2, 90)
    assert query.batch() == [20, 21]
    assert query.batch() is None
    assert query.offset["@"]["streams"]["a2"]["birth"] == {"0": 0, "1": 0}


def test_stream_that_came_while_a_query_was_down_joins_it(two):
    first = two.query(**MATCHING)
    first.batch()
    two.make("b2", 2, 20)
    assert two.query(first.offset, **MATCHING).batch() == [20, 21]


def test_query_over_no_stream_yet_reads_the_first_that_matches(streams):
    streams.make("other")
    query = streams.query(subscribePattern="^a")
    assert query.batch() is None
    streams.make("a", 3)
    assert query.batch() == [0, 1, 2]
    assert query.offset["@"]["v"] == 1


def test_batch_that_comes_again_has_the_same_rows_though_a_stream_has_joined(two):
    query = two.query(**MATCHING)
    start = query.offset
    before = query.batch()
    two.make("a2", 2, 20)
    again = two.query(**MATCHING)
    assert "a2" in again.offset
    tasks = again.tail.partitions(again.offset, query.offset)
    assert (
        numbers_of(again.tail, tasks)
        == before
        == numbers_of(again.tail, again.tail.partitions(start, query.offset))
    )


def test_stream_that_is_named_since_begins_with_what_there_is(two):
    two.make_aged("c")
    first = two.query(subscribe="a", startingOffsets="earliest")
    assert first.batch() == [0, 1, 2, 3]
    added = two.query(first.offset, subscribe="a,b,c")
    assert added.batch() == [10, 11, 12, 13, 22, 23]


def test_what_has_expired_of_a_stream_that_matched_is_a_loss(two):
    first = two.query(**MATCHING)
    first.batch()
    two.make_aged("a2")
    with pytest.raises(LostRangeError, match="a2"):
        two.query(first.offset, **MATCHING).batch()
    assert two.query(first.offset, **MATCHING, failOnDataLoss="false").batch() == [22, 23]


def test_query_of_one_stream_goes_on_over_several_and_back(two, caplog):
    first = two.query(subscribe="a", startingOffsets="earliest")
    first.batch()
    assert first.offset["@"]["v"] == 1
    both = two.query(first.offset, subscribe="a,b")
    assert both.batch() == [10, 11, 12, 13]
    with pytest.raises(InvalidRequestError, match=r"now reads stream 'a': .* again.*'b'"):
        two.query(both.offset, subscribe="a").batch()
    two.logs["a"].append(1, 4)
    back = two.query(both.offset, subscribe="a", failOnDataLoss="false")
    assert back.batch() == [4]
    assert back.offset["@"]["v"] == 1
    assert "stream 'b' is read no further" in caplog.text


def test_query_on_other_streams_needs_a_checkpoint_of_its_own(two):
    first = two.query(subscribe="a", startingOffsets="earliest")
    first.batch()
    with pytest.raises(InvalidRequestError, match=r"is of \['a'\], not of stream 'b'"):
        two.query(first.offset, subscribe="b", failOnDataLoss="false").batch()


def test_dropped_stream_that_matched_ends_the_query_unless_losses_are_passed_by(two, caplog):
    query = two.query(**MATCHING)
    query.batch()
    two.drop("b")
    with pytest.raises(LostRangeError, match=r"dropped under the query.*'b'"):
        query.batch()
    tolerant = two.query(query.offset, **MATCHING, failOnDataLoss="false")
    assert tolerant.batch() == []
    assert caplog.text.count("stream 'b' is read no further") == 1
    assert tolerant.batch() is None
    two.make("b", 2, 30)
    assert tolerant.batch() == [30, 31]


def test_dropped_stream_that_is_named_is_told_by_name(two):
    query = two.query(**BOTH, failOnDataLoss="false")
    query.batch()
    two.drop("b")
    with pytest.raises(InvalidRequestError, match=r"there is no such stream.*'b'"):
        query.batch()


@pytest.mark.parametrize("tolerance", ["true", "false"])
def test_stream_made_anew_is_told_by_name(two, tolerance):
    query = two.query(**MATCHING, failOnDataLoss=tolerance)
    query.batch()
    two.drop("b")
    two.make("b", 2)
    with pytest.raises(ForeignDataError, match=r"the stream was re-created.*'b'"):
        query.batch()


def test_batch_planned_before_a_stream_went_is_done_with_what_is_left(two, caplog):
    query = two.query(**MATCHING)
    start = query.offset
    query.batch()
    two.drop("b")
    with pytest.raises(InvalidRequestError, match=r"there is no such stream.*'b'"):
        query.tail.partitions(start, query.offset)
    tolerant = two.query(start, **MATCHING, failOnDataLoss="false").tail
    assert numbers_of(tolerant, tolerant.partitions(start, query.offset)) == [0, 1, 2, 3]
    assert "stream 'b' was dropped: a batch that comes again lacks its rows" in caplog.text


def test_batch_planned_before_a_stream_was_unsubscribed_comes_again_whole(two):
    query = two.query(**BOTH)
    start = query.offset
    before = query.batch()
    tail = two.query(start, subscribe="a").tail
    assert numbers_of(tail, tail.partitions(start, query.offset)) == before


def test_run_with_an_end_takes_no_stream_that_came_later(two):
    query = two.query(**MATCHING)
    query.tail.prepareForTriggerAvailableNow()
    two.make("a2", 2, 20)
    two.logs["a"].append(1, 4)
    assert query.batch() == [0, 1, 2, 3, 10, 11, 12, 13]
    assert query.batch() is None
    assert "a2" not in query.offset


def test_offsets_are_given_of_every_stream_that_is_named(two):
    ends = {str(shard): -1 for shard in range(2)}
    offsets = {"a": ends, "b": {**ends, "0": -2}}
    both = {"subscribe": "a,b", "startingOffsets": json.dumps(offsets)}
    assert two.query(**both).batch() == [10, 12]
    with pytest.raises(InvalidRequestError, match=r"names \['a'\]; it reads"):
        two.query(subscribe="a,b", startingOffsets=json.dumps({"a": ends}))


def test_stream_that_matches_and_has_no_offsets_given_joins_with_its_first_row(two):
    offsets = json.dumps({"a": {str(shard): -1 for shard in range(2)}})
    query = two.query(subscribePattern="^[ab]$", startingOffsets=offsets)
    assert query.batch() == [10, 11, 12, 13]
    unknown = json.dumps({**json.loads(offsets), "ab": {"0": 0}})
    with pytest.raises(InvalidRequestError, match=r"no such stream, but offsets are given.*'ab'"):
        two.query(subscribePattern="^[ab]", startingOffsets=unknown)


def test_offset_of_a_query_over_several_streams_can_be_begun_from(two):
    query = two.query(**BOTH)
    query.batch()
    two.logs["a"].append(1, 4)
    assert two.query(subscribe="a,b", startingOffsets=json.dumps(query.offset)).batch() == [4]
    two.drop("a")
    two.make("a", 9)
    with pytest.raises(ForeignDataError, match="re-created"):
        two.query(subscribe="a,b", startingOffsets=json.dumps(query.offset))


def test_ids_and_times_that_mean_nothing_in_one_of_the_streams_are_refused_by_its_name(two):
    two.make("c", key_mode="dictionary")
    two.make("d", unit="sequence")
    with pytest.raises(InvalidRequestError, match="option ids: stream 'c' has no integer ids"):
        two.query(subscribe="a,c", ids="1")
    with pytest.raises(InvalidRequestError, match="stream 'd' counts a sequence"):
        two.query(subscribe="a,d", startingTimestamp="5")


def test_ids_choose_rows_of_all_streams(two):
    assert two.query(**BOTH, ids="3,12").batch() == [3, 12]


def test_latest_offsets_are_reported_of_each_stream(two):
    query = two.query(**BOTH)
    query.batch(ReadMaxRows(2))
    latest = query.tail.reportLatestOffset()
    assert {stream: sum(ends.values()) for stream, ends in latest.items()} == {"a": 4, "b": 4}


def test_assigned_shards_alone_are_read(two):
    query = two.query(assign='{"a":[0,1],"b":[1]}', startingOffsets="earliest")
    assert query.batch() == [0, 1, 2, 3, 11, 13]
    two.logs["b"].append(2, 14)
    assert query.batch() == [15]
    assert (query.offset["a"], query.offset["b"]) == ({"0": 2, "1": 2}, {"1": 3})
    again = two.query(query.offset, assign='{"a":[0,1],"b":[0,1]}')
    assert again.batch() == [10, 12, 14]
    with pytest.raises(InvalidRequestError, match=r"option assign: there are no shards \[4\]"):
        two.query(assign='{"a":[4]}')


def test_shard_that_is_not_assigned_any_more_is_left_as_a_stream_is(two, caplog):
    query = two.query(**BOTH)
    start = query.offset
    before = query.batch()
    assigned = {"assign": '{"a":[0],"b":[0,1]}'}
    with pytest.raises(InvalidRequestError, match=r"read shards \[1\], .* not assigned .*'a'"):
        two.query(query.offset, **assigned).batch()
    two.logs["a"].append(2, 4)
    tolerant = two.query(query.offset, **assigned, failOnDataLoss="false")
    assert tolerant.batch() == [4]
    assert tolerant.batch() is None
    assert caplog.text.count("shard 1 of stream 'a' is read no further") == 1
    again = two.query(start, **assigned).tail
    assert numbers_of(again, again.partitions(start, query.offset)) == before


def test_offsets_and_snapshots_are_given_of_the_shards_that_are_assigned(two):
    text = snapshot(two.root, "a,b")
    assigned = {"assign": '{"a":[0],"b":[0,1]}'}
    with pytest.raises(InvalidRequestError, match=r"for shards \[0, 1\]; there are \[0\].*'a'"):
        two.query(**assigned, startingOffsets=text)
    with pytest.raises(InvalidRequestError, match=r"it is of shards \[0, 1\], not of those"):
        parse_source_options({"path": str(two.root), **assigned, "snapshot": text}, "batch")
