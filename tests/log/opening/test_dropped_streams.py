"""A stream that is dropped is gone at once, and known as dropped."""

import errno
import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_core import (
    CorruptionError,
    Environment,
    InvalidRequestError,
    ShardLockedError,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
    UnavailableError,
    drop_stream,
    dropped_streams,
    list_streams,
)
from storage_core.testing import ManualClock

NAME = "orders"


def made(root, payload=b"x"):
    """Make a stream of one record; return the lineages of its shards."""
    with Stream.create(root, NAME, StreamOptions(shards=2)) as stream:
        stream.append(1, 0, payload)
        return {stream.lineage(0), stream.lineage(1)}


def holds(root):
    with StreamReader.open(root, NAME) as reader:
        return reader.read(columns=["payload"])["payload"].to_pylist()


def test_dropped_stream_is_no_stream_any_more(tmp_path):
    made(tmp_path)
    drop_stream(tmp_path, NAME)
    assert list_streams(tmp_path) == []
    with pytest.raises(InvalidRequestError):
        StreamReader.open(tmp_path, NAME)


def test_name_of_a_dropped_stream_can_be_taken_again(tmp_path):
    made(tmp_path, b"old")
    drop_stream(tmp_path, NAME)
    made(tmp_path, b"new")
    assert holds(tmp_path) == [b"new"]


def test_what_was_set_aside_is_whole_and_moving_it_back_undoes_the_drop(tmp_path):
    made(tmp_path)
    place = drop_stream(tmp_path, NAME)
    assert place is not None
    place.rename(tmp_path / NAME)
    assert holds(tmp_path) == [b"x"]


def test_what_is_not_kept_is_removed(tmp_path):
    made(tmp_path)
    assert drop_stream(tmp_path, NAME, keep=False) is None
    assert list(tmp_path.rglob("shard-*")) == []


@pytest.mark.parametrize("keep", [True, False])
def test_lineages_of_dropped_shards_are_remembered(tmp_path, keep):
    lineages = []
    for _ in range(2):
        lineages.append(made(tmp_path))
        drop_stream(tmp_path, NAME, keep=keep)
    assert [set(drop.lineages) for drop in dropped_streams(tmp_path, NAME)] == lineages


@pytest.fixture
def at_rename(tmp_path, monkeypatch):
    """What is called, once each, just before the stream's directory is moved away."""
    calls: list[Callable[[], object]] = []
    rename = Path.rename

    def call_and_rename(path: Path, target: Path) -> Path:
        if path == tmp_path / NAME and calls:
            calls.pop()()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", call_and_rename)
    return calls


def test_stream_is_known_as_dropped_before_it_leaves_its_place(tmp_path, at_rename):
    lineages = made(tmp_path)
    listings: list[set[str]] = []
    at_rename.append(
        lambda: listings.extend(set(drop.lineages) for drop in dropped_streams(tmp_path, NAME))
    )
    drop_stream(tmp_path, NAME)
    assert listings == [lineages]


def test_drop_that_was_cut_short_has_changed_nothing_and_can_be_repeated(tmp_path, at_rename):
    def refuse() -> None:
        raise OSError(errno.EIO, "cut")

    lineages = made(tmp_path)
    at_rename.append(refuse)
    with pytest.raises(UnavailableError, match="dropping the stream: cut"):
        drop_stream(tmp_path, NAME)
    assert holds(tmp_path) == [b"x"]
    drop_stream(tmp_path, NAME)
    assert [set(drop.lineages) for drop in dropped_streams(tmp_path, NAME)] == [lineages]


def test_shard_that_was_added_before_the_lock_is_dropped_with_the_others(tmp_path, monkeypatch):
    origin = StreamOrigin("kafka", NAME, "topic-id", "none", "timestamp")
    Stream.create(tmp_path, NAME, origin=origin).close()
    flock = fcntl.flock

    def add_and_lock(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        Stream.add_shards(tmp_path, NAME, {3: 0})
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", add_and_lock)
    drop_stream(tmp_path, NAME)
    (drop,) = dropped_streams(tmp_path, NAME)
    assert len(drop.lineages) == 1


def test_what_was_set_aside_is_remembered_after_any_number_of_drops(tmp_path):
    removed = made(tmp_path)
    place = drop_stream(tmp_path, NAME)
    origin = StreamOrigin("kafka", NAME, "topic-id", "none", "timestamp")
    for _ in range(20):
        Stream.create(tmp_path, NAME, origin=origin).close()
        drop_stream(tmp_path, NAME, keep=False)
    assert set(dropped_streams(tmp_path, NAME)[0].lineages) == removed
    assert place is not None
    place.rename(tmp_path / NAME)
    drop_stream(tmp_path, NAME)
    assert [set(drop.lineages) for drop in dropped_streams(tmp_path, NAME)].count(removed) == 1


def test_so_many_drops_of_what_is_gone_are_remembered_and_no_more(tmp_path):
    clock = ManualClock()
    origin = StreamOrigin("kafka", NAME, "topic-id", "none", "timestamp")
    for _ in range(20):
        Stream.create(tmp_path, NAME, origin=origin).close()
        drop_stream(tmp_path, NAME, keep=False, environment=Environment(clock))
        clock.advance(1)
    drops = dropped_streams(tmp_path, NAME)
    assert len(drops) == 16
    assert drops[-1].dropped_at_ms == clock.now_ns() // 10**6 - 1000


def test_stream_that_a_writer_holds_is_not_dropped(tmp_path):
    made(tmp_path)
    with Stream.open(tmp_path, NAME, shards=[1]), pytest.raises(ShardLockedError):
        drop_stream(tmp_path, NAME)
    assert holds(tmp_path) == [b"x"]
    drop_stream(tmp_path, NAME)


def test_stream_that_is_not_there_is_told(tmp_path):
    made(tmp_path)
    with pytest.raises(InvalidRequestError, match="elsewhere"):
        drop_stream(tmp_path, "elsewhere")


def test_nothing_was_dropped_where_there_is_nothing(tmp_path):
    assert list(dropped_streams(tmp_path, NAME)) == []


def test_damaged_file_of_drops_is_told(tmp_path):
    made(tmp_path)
    drop_stream(tmp_path, NAME)
    (tmp_path / "~dropped" / NAME / "drops.json").write_text("{}")
    with pytest.raises(CorruptionError, match=r"drops\.json"):
        dropped_streams(tmp_path, NAME)


def test_dropped_stream_called_like_a_file_of_ours_hides_nothing(tmp_path):
    Stream.create(tmp_path, "stream.json").close()
    drop_stream(tmp_path, "stream.json")
    assert list_streams(tmp_path) == []


@pytest.mark.parametrize("name", ["root.json", "root.json.0123456789abcdef.draft"])
def test_names_of_a_roots_own_files_are_refused_for_streams(tmp_path, name):
    with pytest.raises(InvalidRequestError, match=name):
        Stream.create(tmp_path, name)
