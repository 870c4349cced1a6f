"""`shardlog dlq`: what could not be stored, with its reason and place."""

import pytest

from connectors.cli.exit_codes import EXIT_USAGE
from connectors.dlq.record import DeadLetter, encode_dead_letter
from connectors.group.retry_shards import refuse_beyond
from connectors.kafka import Partition
from storage_core import InvalidRequestError, Stream, StreamReader
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


ALL = ["--all", "--execute"]


def waiting(root):
    with StreamReader.open(root, TOPIC) as reader:
        reader.refresh()
        return [offset for offset, _ in reader.dead_letters(1)]


def test_discard_without_execute_is_a_table_and_nothing_goes(shardlog, root):
    ran = shardlog("dlq", "discard", root, TOPIC)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "partition  dead letters  first offset  last offset  reasons",
        "        1             3             3            7  3 key",
        "nothing was changed; add --execute to do it",
    ]
    (facts,) = shardlog("dlq", "discard", root, TOPIC, "--offsets=4..", "--json").json_lines[0]
    assert facts == {
        "partition": 1,
        "discarded": 2,
        "first_offset": 4,
        "last_offset": 7,
        "reasons": {"key": 2},
        "is_executed": False,
    }
    assert waiting(root) == [3, 4, 7]


def test_discard_needs_a_filter_or_all_to_execute(shardlog, root):
    refused = shardlog("dlq", "discard", root, TOPIC, "--execute")
    assert (refused.code, "--all" in refused.err) == (EXIT_USAGE, True)
    assert waiting(root) == [3, 4, 7]
    ran = shardlog("dlq", "discard", root, TOPIC, "--offsets=4", "--execute")
    assert (ran.code, ran.out) == (0, "partition 1: 1 dead letter discarded\n")
    assert waiting(root) == [3, 7]
    assert shardlog("dlq", "discard", root, TOPIC, *ALL).code == 0
    assert waiting(root) == []
    assert shardlog("dlq", "discard", root, TOPIC, *ALL).out == "no dead letters are chosen\n"


def test_dry_run_of_a_retry_tells_the_first_that_is_refused(shardlog, root):
    ran = shardlog("dlq", "retry", root, TOPIC, "--offsets=4..", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert "2 still refused, the first at offset 4" in ran.lines[0]
    assert waiting(root) == [3, 4, 7]


def test_export_to_a_dash_is_standard_output(shardlog, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exported = shardlog("dlq", "export", root, TOPIC, "--to", "-")
    assert (exported.code, exported.err) == (0, "")
    assert [letter["offset"] for letter in exported.json_lines] == [3, 4, 7]
    assert shardlog("dlq", "export", root, TOPIC, "--to", "-", "--overwrite").code == EXIT_USAGE
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("partition", [3, 1_000_000, 1_000_001])
@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_partition_that_is_not_there_is_refused_and_no_retry_shard_is_one(
    shardlog, root, verb, partition
):
    Stream.add_shards(root, TOPIC, {1_000_001: 0})
    refused = shardlog("dlq", verb, root, TOPIC, f"--partition={partition}")
    assert (refused.code, len(refused.err.splitlines())) == (EXIT_USAGE, 1)
    assert f"no partition {partition}" in refused.err


def test_partition_whose_shard_would_be_a_retry_shard_is_refused():
    refuse_beyond(Partition(TOPIC, 999_999))
    with pytest.raises(InvalidRequestError, match="1000000 cannot be stored"):
        refuse_beyond(Partition(TOPIC, 1_000_000))
