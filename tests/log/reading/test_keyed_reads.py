"""Reads by key: on the writer and beside it, over one shard and over several."""

import re
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pytest

from storage_core import (
    InvalidRequestError,
    LostRangeError,
    ReadRequest,
    Record,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
)
from tests.log.disks import BesideThread
from tests.log.served import DOORS, opened_by
from tests.log.workbench import Workbench, batch_of, column_of, rows_of

KEYS = [b"b", None, b"a", b"", b"b", b"a\0"]
IN_ORDER = [None, b"", b"a", b"a\0", b"b", b"b"]
TOPIC = StreamOrigin("kafka", "clicks", "topic-id-1", "dictionary", "timestamp")
Reads = Stream | StreamReader


@pytest.fixture
def written(make_bench: Callable[..., Workbench]) -> Workbench:
    """Six rows whose primaries are 100 to 105; the last of key b came late."""
    bench = make_bench(key_mode="dictionary", shards=4)
    bench.keep([105, 101, 102, 103, 100, 104], secondary=None, key=KEYS)
    return bench


@pytest.fixture(params=["writer", *DOORS])
def reads(request: pytest.FixtureRequest, written: Workbench) -> Iterator[Reads]:
    """The stream as its writer reads it, as another process does, and as a server shows it."""
    if request.param == "writer":
        yield written.stream
    else:
        with opened_by(request.param, written.root, written.name) as reader:
            yield reader


@pytest.fixture
def two_partitions(root) -> Iterator[Stream]:
    """Key k in both shards, as after partitions were added; key j in the second only."""
    options = StreamOptions(unit="s", key_mode="dictionary")
    Stream.create(root, "clicks", options, origin=TOPIC).close()
    Stream.add_shards(root, "clicks", {0: 0, 1: 0})
    with Stream.open(root, "clicks") as stream:
        for shard, times, keys in ((0, [1, 4], [b"k", b"k"]), (1, [2, 3, 5], [b"j", b"k", b"k"])):
            batch = batch_of(times, secondary=None, key=keys)
            stream.append_batch(batch, shard=shard, addresses=range(len(times)))
        stream.commit()
        yield stream


# --- every command -------------------------------------------------------------------------------


def test_rows_come_by_key_then_primary_and_show_no_secondary(reads):
    rows = reads.read()
    assert rows["key"].to_pylist() == IN_ORDER
    assert rows["primary"].to_pylist() == [101, 103, 102, 104, 100, 105]
    assert rows["secondary"].to_pylist() == [None] * 6


@pytest.mark.parametrize(
    ("keys", "times"),
    [
        (b"b", [100, 105]),
        ([b"b"], [100, 105]),
        ([None], [101]),
        ([b"", b"a"], [103, 102]),
        ([b"a", b"nobody"], [102]),
        ([b"nobody"], []),
        ([], []),
    ],
)
def test_keys_choose_rows(reads, keys, times):
    assert column_of(reads.read(keys=keys), "primary") == times
    assert sorted(column_of(reads.scan(keys=keys), "primary")) == sorted(times)
    replayed = chain(*(reads.tail(shard, keys=keys) for shard in range(4)))
    assert sorted(column_of(replayed, "primary")) == sorted(times)


def test_bounds_limit_and_columns_go_with_keys(reads):
    assert reads.read(keys=[b"b", b"a"], start=101, limit=1, columns=["primary"]).to_pydict() == {
        "primary": [102, 105]
    }
    assert column_of(reads.read(limit=1), "primary") == [101, 103, 102, 104, 100]


def test_records_of_for_each_come_key_by_key(reads):
    seen: list[Record] = []
    reads.for_each(fn=seen.append)
    assert [record.key for record in seen] == IN_ORDER
    assert {record.secondary for record in seen} == {None}
    chosen: list[Record] = []
    reads.for_each(None, 101, None, chosen.append, keys=[b"b", None])
    assert [(record.key, record.primary) for record in chosen] == [(None, 101), (b"b", 105)]


def test_latest_is_told_by_key(reads):
    assert {key: record.primary for key, record in reads.latest().items()} == {
        None: 101,
        b"": 103,
        b"a": 102,
        b"a\0": 104,
        b"b": 105,
    }
    assert list(reads.latest(keys=[b"b", b"nobody"])) == [b"b"]


def test_earliest_and_available_take_keys(reads):
    assert reads.earliest(keys=[b"b", b"a"], from_=101) == 102
    assert reads.earliest(None, 0, keys=[b"nobody"]) is None
    last, rows = reads.available(None, 101, 3, keys=[b"b", b"a"])
    assert (last, column_of(rows, "primary")) == (105, [102, 105])
    last, rows = reads.available(keys=[b"nobody"], from_=0, width=1)
    assert (last, rows.num_rows, rows.column_names[-1]) == (None, 0, "key")


# --- what does not fit ------------------------------------------------------------------------


def test_ids_are_refused_where_rows_belong_to_keys(reads):
    for ask in (
        lambda: reads.read(1),
        lambda: reads.scan([1]),
        lambda: reads.tail(0, ids=1),
        lambda: reads.for_each(1, None, None, print),
        lambda: reads.latest(1),
        lambda: reads.earliest(1, 0),
        lambda: reads.available(1, 0, 1),
    ):
        with pytest.raises(InvalidRequestError, match="read by keys, not by ids"):
            ask()


def test_keys_are_refused_where_rows_belong_to_ids(bench):
    with pytest.raises(InvalidRequestError, match="read by ids, not by keys"):
        bench.stream.read(keys=[b"a"])
    with pytest.raises(InvalidRequestError, match="read by ids, not by keys"):
        list(bench.shard.scan(ReadRequest(0, keys=(b"a",))))


@pytest.mark.parametrize("keys", ["text", ["text"], 1, [1], [[b"a"]], [bytearray(b"a")]])
def test_what_is_no_key_is_refused_in_a_line(reads, keys):
    with pytest.raises(InvalidRequestError, match="keys are bytes, or None"):
        reads.read(keys=keys)


@pytest.mark.parametrize("keys", [np.array([b"a"]), bytearray(b"a"), memoryview(b"a"), 1])
def test_what_is_no_key_is_named_as_it_was_given(reads, keys):
    key = keys[0] if isinstance(keys, np.ndarray) else keys
    with pytest.raises(InvalidRequestError, match=re.escape(f"not {key!r}")):
        reads.read(keys=keys)


def test_for_each_without_a_function_is_refused(reads):
    with pytest.raises(InvalidRequestError, match="needs a function"):
        reads.for_each(keys=[b"a"])


# --- what is committed ------------------------------------------------------------------------


def test_key_whose_rows_are_not_committed_is_absent(written):
    written.append([200, 201], secondary=None, key=[b"new", b"b"])
    with written.read_beside() as reader:
        for reads in (written.stream, reader):
            assert reads.read(keys=[b"new"]).num_rows == 0
            assert reads.latest(keys=[b"new"]) == {}
            assert reads.latest(keys=[b"b"])[b"b"].primary == 105
        written.commit()
        for reads in (written.stream, reader):
            assert reads.latest(keys=[b"new", b"b"])[b"new"].primary == 200


def test_new_keys_of_one_commit_are_seen_together_by_who_asks_meanwhile(make_bench):
    bench, rounds = make_bench(key_mode="dictionary"), 300

    def write() -> None:
        for number in range(rounds):
            keys = [b"left-%d" % number, b"right-%d" % number]
            bench.keep([number, number], secondary=None, key=keys)

    with BesideThread(write):
        for number in range(rounds):
            pair = [b"left-%d" % number, b"right-%d" % number]
            while not (newest := bench.stream.latest(keys=pair)):
                pass
            assert list(newest) == pair


# --- several shards ---------------------------------------------------------------------------


def test_key_in_two_shards_is_one_key(two_partitions):
    rows = two_partitions.read(columns=["key", "primary", "shard"]).to_pylist()
    assert [(row["key"], row["primary"], row["shard"]) for row in rows] == [
        (b"j", 2, 1),
        (b"k", 1, 0),
        (b"k", 3, 1),
        (b"k", 4, 0),
        (b"k", 5, 1),
    ]


def test_limit_is_of_a_key_over_all_shards(two_partitions):
    assert column_of(two_partitions.read(keys=[b"k"], limit=3), "primary") == [1, 3, 4]
    assert column_of(two_partitions.read(limit=2), "primary") == [2, 1, 3]


def test_latest_of_a_key_is_the_newest_of_all_shards(two_partitions):
    latest = two_partitions.latest(keys=[b"k", b"j"])
    assert (latest[b"k"].primary, latest[b"k"].shard) == (5, 1)
    assert latest[b"j"].primary == 2
    seen: list[Record] = []
    two_partitions.for_each(None, None, None, seen.append, keys=[b"k"])
    assert [record.primary for record in seen] == [1, 3, 4, 5]


def test_one_shard_answers_in_order_of_keys_and_without_numbers(written):
    with written.read_beside() as reader:
        for number in range(4):
            request = ReadRequest(number, order="primary", keys=tuple(dict.fromkeys(KEYS)))
            rows = rows_of(reader.shard(number).scan(request))
            keys = [row["key"] for row in rows]
            assert keys == sorted(keys, key=lambda key: (key is not None, key or b""))
            assert {row["secondary"] for row in rows} <= {None}


# --- what is gone -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", [b"a", b"nobody"])
def test_lost_range_is_told_whether_the_key_is_known_or_went_with_it(make_bench, key):
    bench = make_bench(key_mode="dictionary")
    bench.keep([1], secondary=None, key=[b"a"])
    bench.keep([2], secondary=None, key=[b"b"])
    bench.crash()
    bench.cut_log(60)
    bench.open()
    assert bench.stream.lost_ranges()[0]
    for ask in (
        lambda: bench.stream.read(keys=[key]),
        lambda: list(bench.stream.scan(keys=[key])),
        lambda: list(bench.stream.tail(0, keys=[key])),
        lambda: bench.stream.latest(keys=[key]),
        lambda: bench.stream.earliest(keys=[key]),
    ):
        with pytest.raises(LostRangeError):
            ask()
