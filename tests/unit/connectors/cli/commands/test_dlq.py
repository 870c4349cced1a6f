"""`shardlog dlq`: what could not be stored, with its reason and place."""

import pytest

from connectors.dlq.record import DeadLetter, encode_dead_letter
from connectors.kafka import Partition
from storage_core import Stream
from tests.unit.connectors.records import record, shard_records
from tests.unit.connectors.writers import TOPIC, open_writers


@pytest.fixture
def root(tmp_path):
    """A topic of three shards; of shard 1 three records could not be stored."""
    texts = [
        record(0, partition=1),
        record(3, key=b"user-1", partition=1, headers=[("trace", b"\xff"), ("none", None)]),
        record(4, key=b"user-2", value=None, partition=1),
        record(7, key=b"\x00\xff", value=b"\xff", partition=1),
    ]
    ((_, records),) = shard_records(texts)
    with open_writers(tmp_path, 3) as feeds:
        feeds[Partition(TOPIC, 1)].append(records, records.end)
    return tmp_path


def test_list_counts_dead_letters_and_tells_why(shardlog, root):
    ran = shardlog("dlq", "list", root)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "stream  shard  dead letters  first offset  reason of the first",
        "orders      1             3             3  key of 6 bytes; an integer key has 4",
    ]


def test_show_gives_each_record_raw_as_json_lines(shardlog, root):
    first, second, third = shardlog("dlq", "show", root, TOPIC, "--format=json").json_lines
    assert first == {
        "shard": 1,
        "offset": 3,
        "timestamp": 1003,
        "word": "key",
        "reason": "key of 6 bytes; an integer key has 4",
        "key": "user-1",
        "value": "v",
        "headers": [
            {"key": "trace", "value": "/w==", "value_encoding": "base64"},
            {"key": "none", "value": None},
        ],
    }
    assert (second["key"], second["value"], second["headers"]) == ("user-2", None, None)
    assert (third["key"], third["key_encoding"], third["value"]) == ("AP8=", "base64", "/w==")


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--limit=1"], [3]),
        (["--from=4"], [4, 7]),
        (["--shard=1", "--from=4", "--limit=1"], [4]),
        (["--shard=0"], []),
        (["--limit=0"], [3, 4, 7]),
    ],
)
def test_show_begins_and_ends_where_it_is_told(shardlog, root, options, offsets):
    shown_rows = shardlog("dlq", "show", root, TOPIC, "--format=json", *options).json_lines
    assert [one["offset"] for one in shown_rows] == offsets


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize(
    ("word", "rest"),
    [
        ("framing", "value is empty"),
        ("unknown_schema", "id 9 is not there"),
        ("body", "Reading: the body is truncated"),
        ("mapping", "field at is null"),
    ],
)
def test_word_of_a_reason_is_shown_once(shardlog, root, word, rest, form):
    reason = f"{word.replace('_', ' ')}: {rest}"
    letter = encode_dead_letter(DeadLetter(reason, TOPIC, 0, 5, 1, 0, None, b"v", None))
    with Stream.open(root, TOPIC, shards=[0]) as stream:
        ((_, rows),) = shard_records([record(0)])
        none = rows.rows.slice(0, 0)
        stream.append_batch(none, shard=0, addresses=[], dead_letters={5: letter})
    printed = shardlog("dlq", "show", root, TOPIC, "--shard=0", f"--format={form}").out
    assert (word in printed, rest in printed, reason in printed) == (True, True, False)


def test_dead_letter_in_another_encoding_is_shown_whole(shardlog, root):
    with Stream.open(root, TOPIC, shards=[0]) as stream:
        ((_, rows),) = shard_records([record(0)])
        stream.append_batch(rows.rows.slice(0, 0), shard=0, addresses=[], dead_letters={5: b"mine"})
    shown_rows, *_ = shardlog("dlq", "show", root, TOPIC, "--format=json").json_lines
    assert (shown_rows["offset"], shown_rows["word"], shown_rows["reason"]) == (5, None, None)
    assert shown_rows["value"] == "mine"
