"""`shardlog expire`: tells what would go, and lets it go when told to."""

import json
from datetime import timedelta

import pytest

from storage_core import Stream, StreamOptions, StreamReader, SystemClock

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
        "hidden",
    ]
    assert ran.lines[1].split()[:7] == ["0", str(NOW - HOUR), "3", "2", "3", "0", "3"]
    assert ran.lines[1].split()[-1] == "3"
    assert ran.lines[-1].endswith(
        ": 3 rows would be hidden from all reads, and 3 rows deleted from disk; add --execute to "
        "delete them"
    )
    assert rows(root) == 4


def test_with_execute_it_goes(shardlog, root):
    ran = shardlog("expire", root, NAME, "--now", str(NOW), "--execute")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[2].startswith("3 rows have been deleted from disk of those older than ")
    assert len(ran.lines) == 3
    assert rows(root) == 1


def test_time_is_the_clocks_unless_given(shardlog, root):
    assert shardlog("expire", root, NAME, "--execute").code == 0
    assert rows(root) == 0


def test_json_has_a_line_a_shard(shardlog, root):
    ran = shardlog("expire", root, NAME, "--now", str(NOW), "--json")
    (shard,) = json.loads(ran.out)
    assert (shard["shard"], shard["rows"], shard["windows"], shard["start"]) == (0, 3, 2, 3)
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


@pytest.mark.parametrize("more", [(), ("--execute",), ("--json",)])
def test_floor_after_the_clock_is_warned_of(shardlog, root, more):
    """As a time typed in milliseconds where the stream counts seconds makes one."""
    ran = shardlog("expire", root, NAME, "--now", str(NOW * 1000), *more)
    assert ran.code == 0
    assert ran.err.count("\n") == 1
    assert f"the floor {NOW * 1000 - HOUR} " in ran.err
    assert "lies after the clock's time" in ran.err
    assert "times count s" in ran.err


def test_floor_after_the_clock_is_warned_of_for_as_long_as_it_stands(shardlog, root):
    shardlog("expire", root, NAME, "--now", str(NOW * 1000), "--execute")
    assert "lies after the clock's time" in shardlog("expire", root, NAME).err


def test_floor_up_to_the_clock_is_not_warned_of(shardlog, root):
    clock_s = SystemClock().now_ns() // 10**9
    ran = shardlog("expire", root, NAME, "--now", str(clock_s + HOUR // 2))
    assert (ran.code, ran.err) == (0, "")
