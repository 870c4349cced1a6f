"""`shardlog tail`: rows by address with their state, and what comes after them."""

import json
import signal

import pytest

from connectors.cli.main import outcome
from storage_core import Stream, StreamOptions

NAME = "telemetry"


@pytest.fixture
def root(tmp_path):
    """Shard 0: normal, late, ahead. Shard 1: one row."""
    with Stream.create(tmp_path, NAME, StreamOptions(shards=2, ahead_max=10**6)) as stream:
        stream.append(1000, 2, b"on time")
        stream.append(10, 2, b"late")
        stream.append(2**60, 2, b"ahead")
        stream.append(1000, 3, b"other shard")
    return tmp_path


@pytest.fixture
def rows(shardlog, root):
    """Tail as JSON with options, which must succeed."""

    def tail(*options):
        ran = shardlog("tail", root, NAME, "--format", "json", *options)
        assert (ran.code, ran.err) == (0, "")
        return ran.json_lines

    return tail


def payloads(rows):
    return [row["payload"] for row in rows]


def test_rows_come_by_address_with_their_state(rows):
    read_rows = rows("--shard", 0)
    assert [row["address"] for row in read_rows] == [0, 1, 2]
    assert [row["state"] for row in read_rows] == [0, 1, 2]


def test_it_begins_at_the_address_asked_for(rows):
    assert payloads(rows("--shard", 0, "--from", 1)) == ["late", "ahead"]


@pytest.mark.parametrize("start", ["end", "3", "1000"])
def test_there_is_nothing_yet_at_or_after_the_end(rows, start):
    assert rows("--shard", 0, "--from", start) == []


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (3, 3), (4, 4), (9, 4), (0, 4)])
def test_limit_counts_rows_in_all(rows, limit, count):
    assert payloads(rows("--limit", limit)) == ["on time", "late", "ahead", "other shard"][:count]


def test_following_ends_with_the_last_row_of_a_limit(rows):
    assert payloads(rows("--follow", "--limit", 2)) == ["on time", "late"]


def test_rows_that_are_not_committed_are_not_shown(rows, root):
    with Stream.open(root, NAME) as stream:
        stream.append(2000, 3, b"not yet")
        assert payloads(rows("--shard", 1)) == ["other shard"]


@pytest.mark.parametrize(
    "options", [["--shard", "7"], ["--from", "-1"], ["--from", "start"], ["--columns", "weight"]]
)
def test_what_cannot_be_meant_is_one_line_and_exit_code_2(shardlog, root, options):
    ran = shardlog("tail", root, NAME, *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("wrong", [["--columns", "weight"], ["--id", str(2**31)]])
def test_it_does_not_wait_for_rows_to_say_so(shardlog, root, wrong):
    ran = shardlog("tail", root, NAME, "--from", "end", *wrong)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1


class User:
    """Somebody who writes another row on seeing the first, and presses Ctrl-C on seeing that."""

    def __init__(self, stream):
        self._stream = stream
        self.screen = ""

    def write(self, text):
        self.screen += text
        if "later" in text:
            signal.raise_signal(signal.SIGINT)
        elif "ahead" in text:
            self._stream.append(3000, 3, b"later")
            self._stream.commit()

    def flush(self):
        """Nothing waits."""

    def isatty(self):
        return False


def test_following_shows_what_is_committed_later_and_stops_at_ctrl_c(root, monkeypatch):
    options = ("--follow", "--from", "1", "--columns", "shard,payload", "--format", "json")
    with Stream.open(root, NAME) as stream:
        user = User(stream)
        monkeypatch.setattr("sys.stdout", user)
        assert outcome(["tail", str(root), NAME, *options]) == 130
    assert [json.loads(line) for line in user.screen.splitlines()] == [
        {"shard": 0, "payload": "late"},
        {"shard": 0, "payload": "ahead"},
        {"shard": 1, "payload": "later"},
    ]
