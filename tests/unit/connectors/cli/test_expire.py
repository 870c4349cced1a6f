"""`shardlog expire`: tells what would go, and lets it go when told to."""

import json
from datetime import timedelta

import pytest

from storage_core import Stream, StreamOptions, StreamReader

NAME = "orders"
HOUR = 3600
NOW = 472_222 * HOUR


@pytest.fixture
def root(tmp_path):
    """A stream that keeps an hour, with three old rows and one recent."""
    options = StreamOptions(shards=1, unit="s", retention=timedelta(hours=1))
    with Stream.create(tmp_path, NAME, options) as stream:
        for primary in (NOW - 9 * HOUR, NOW - 8 * HOUR, NOW - 8 * HOUR, NOW):
            stream.append(primary, 1, b"x")
            stream.commit()
    return tmp_path


def rows(root):
    with StreamReader.open(root, NAME) as reader:
        return reader.read().num_rows


def test_without_execute_it_says_what_would_go(shardlog, root):
    ran = shardlog("expire", root, NAME, "--now", str(NOW))
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].split() == [
        "shard",
        "floor",
        "start",
        "windows",
        "rows",
        "late",
        "blocks",
        "bytes",
    ]
    assert ran.lines[1].split()[:7] == ["0", str(NOW - HOUR), "3", "2", "3", "0", "3"]
    assert "add --execute" in ran.lines[-1]
    assert rows(root) == 4


def test_with_execute_it_goes(shardlog, root):
    ran = shardlog("expire", root, NAME, "--now", str(NOW), "--execute")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.lines) == 2
    assert rows(root) == 1


def test_time_is_the_clocks_unless_given(shardlog, root):
    assert shardlog("expire", root, NAME, "--execute").code == 0
    assert rows(root) == 0


def test_json_has_a_line_a_shard(shardlog, root):
    ran = shardlog("expire", root, NAME, "--now", str(NOW), "--json")
    (one,) = json.loads(ran.out)
    assert (one["shard"], one["rows"], one["windows"], one["start"]) == (0, 3, 2, 3)
    assert rows(root) == 4


def test_stream_that_keeps_all_is_told_so(shardlog, root):
    with Stream.open(root, NAME) as stream:
        stream.alter(retention=None)
    ran = shardlog("expire", root, NAME, "--execute")
    assert "keeps all" in ran.out
    assert rows(root) == 4


def test_time_that_is_none_is_one_line(shardlog, root):
    ran = shardlog("expire", root, NAME, "--now", str(2**63))
    assert ran.code == 2
    assert "is not a time in s" in ran.err
    assert ran.err.count("\n") == 1
