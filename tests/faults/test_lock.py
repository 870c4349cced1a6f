"""Goal: one writer a shard, whatever happens to lock files, and whoever is frozen meanwhile.

Method: a writer in another process holds the stream; others try. The store is compared with the
ledger afterwards.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_core import ShardLockedError, Stream, StreamOptions
from tests.faults.support.ledger import Ledger, stored_rows
from tests.faults.support.remote import STOPPED, RemoteWriter, stop_at_write
from tests.faults.support.workload import SHARDS, lane_row

STREAM = "locked"


def append_rows(stream: Stream, lane: int, start: int, end: int) -> dict[int, int]:
    """Append rows of a lane and commit."""
    for number in range(start, end):
        stream.append(*lane_row(lane, number))
    return stream.commit()


def process_id(_stream: Stream) -> int:
    return os.getpid()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    Stream.create(tmp_path / "root", STREAM, StreamOptions(shards=SHARDS)).close()
    return tmp_path / "root"


@pytest.fixture
def holder(root: Path) -> Iterator[RemoteWriter]:
    """A writer in another process with ten rows committed."""
    with RemoteWriter(root, STREAM) as writer:
        writer.do(append_rows, 0, 0, 10)
        yield writer


def expect_rows(root: Path, **lanes: int) -> None:
    """Open the store and find so many rows of each lane, whole and in order."""
    with Stream.open(root, STREAM) as stream:
        ends = stream.commit()
        shards = {
            shard: list(stored_rows(stream.tail(shard, 0, end))) for shard, end in ends.items()
        }
        Ledger({int(lane.removeprefix("lane")): rows for lane, rows in lanes.items()}).check(
            shards, ends
        )
        assert sum(map(len, shards.values())) == sum(lanes.values())
        assert stream.verify().is_clean


def test_second_writer_in_another_process_is_refused(root: Path, holder: RemoteWriter) -> None:
    with pytest.raises(ShardLockedError), RemoteWriter(root, STREAM):
        pass
    with pytest.raises(ShardLockedError, match=rf"process {holder.do(process_id)}\b"):
        Stream.open(root, STREAM)
    holder.do(append_rows, 0, 10, 20)
    holder.kill()
    expect_rows(root, lane0=20)


def test_second_writer_in_the_same_process_is_refused(root: Path) -> None:
    with Stream.open(root, STREAM) as stream:
        append_rows(stream, 0, 0, 10)
        with pytest.raises(ShardLockedError, match=rf"process {os.getpid()}\b"):
            Stream.open(root, STREAM)
        append_rows(stream, 0, 10, 20)
    expect_rows(root, lane0=20)


@pytest.mark.parametrize("are_replaced", [False, True])
def test_removed_lock_files_let_nobody_in(
    root: Path, holder: RemoteWriter, are_replaced: bool
) -> None:
    for path in [*root.rglob("LOCK"), *root.rglob("owner.json")]:
        path.unlink()
        if are_replaced and path.name == "LOCK":
            path.touch()
    with pytest.raises(ShardLockedError):
        Stream.open(root, STREAM)
    holder.do(append_rows, 0, 10, 20)
    holder.kill()
    expect_rows(root, lane0=20)


def test_frozen_writer_keeps_its_shards_and_goes_on_when_woken(
    root: Path, holder: RemoteWriter
) -> None:
    holder.freeze()
    for path in [*root.rglob("LOCK"), *root.rglob("owner.json")]:
        path.unlink()
    for _ in range(3):
        with pytest.raises(ShardLockedError):
            Stream.open(root, STREAM)
    holder.wake()
    holder.do(append_rows, 0, 10, 2000)
    holder.kill()
    expect_rows(root, lane0=2000)


def test_writer_frozen_in_the_middle_of_a_write_goes_on(root: Path) -> None:
    with RemoteWriter(root, STREAM) as holder:
        holder.do(stop_at_write, 1)
        holder.start(append_rows, 0, 0, 500)
        assert holder.finish() == STOPPED
        with pytest.raises(ShardLockedError):
            Stream.open(root, STREAM)
        holder.wake()
        holder.finish()
    expect_rows(root, lane0=500)


def test_killed_frozen_writer_lets_the_next_one_in(root: Path, holder: RemoteWriter) -> None:
    holder.freeze()
    holder.kill()
    with Stream.open(root, STREAM) as stream:
        append_rows(stream, 1, 0, 50)
    expect_rows(root, lane0=10, lane1=50)


def test_writer_of_one_shard_leaves_the_others_to_others(root: Path) -> None:
    with (
        Stream.open(root, STREAM, shards=[0]),
        Stream.open(root, STREAM, shards=[1, 2, 3]),
        pytest.raises(ShardLockedError),
    ):
        Stream.open(root, STREAM, shards=[3])
    expect_rows(root)
