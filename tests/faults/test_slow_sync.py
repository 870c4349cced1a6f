"""Goal: a sync publishes what was written before it began, however long it takes.

Method: stores whose sync waits until the test lets it go. (Not on FUSE: there the kernel lets
nobody write to a file that is being synced.)
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from storage_core import Environment, Stream, StreamOptions, StreamReader
from storage_core.engine.key_value import KeyValueStore, Recovery
from storage_core.engine.rocksdb import open_store
from tests.waiting import WAIT_MAX_S

STREAM = "slow"


class Gate:
    """Where syncs wait while it is shut."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_reached = threading.Event()

    def pass_through(self) -> None:
        self.is_reached.set()
        assert self.is_open.wait(WAIT_MAX_S)

    def open_store(self, path: Path, recovery: Recovery) -> KeyValueStore:
        return GatedStore(open_store(path, recovery), self)


class GatedStore:
    """A store whose syncs go through a gate before they begin and after they are done."""

    def __init__(self, store: KeyValueStore, gate: Gate) -> None:
        self._store = store
        self._gate = gate

    def sync(self) -> None:
        self._gate.pass_through()
        self._store.sync()
        self._gate.pass_through()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def stream(tmp_path: Path, gate: Gate) -> Iterator[Stream]:
    environment = Environment(open_store=gate.open_store)
    options = StreamOptions(shards=1, block_records=8)
    with Stream.create(tmp_path, STREAM, options, environment=environment) as opened:
        yield opened


def append(stream: Stream, start: int, end: int) -> None:
    """Append rows; every eighth is written by itself."""
    for number in range(start, end):
        stream.append(number, 1, b"row")


@contextmanager
def committing(stream: Stream, gate: Gate) -> Iterator[None]:
    """Commit on a thread that is held in its sync until the block is left."""
    gate.is_open.clear()
    gate.is_reached.clear()
    thread = threading.Thread(target=stream.commit)
    thread.start()
    try:
        assert gate.is_reached.wait(WAIT_MAX_S)
        yield
    finally:
        gate.is_open.set()
        thread.join(WAIT_MAX_S)
    assert not thread.is_alive()


def test_rows_appended_during_a_sync_are_not_published_by_it(stream: Stream, gate: Gate) -> None:
    append(stream, 0, 16)
    with committing(stream, gate):
        append(stream, 16, 32)
    assert stream.committed() == {0: 16}
    assert stream.commit() == {0: 32}


def test_nothing_is_seen_before_its_sync_has_ended(
    stream: Stream, gate: Gate, tmp_path: Path
) -> None:
    append(stream, 0, 16)
    with StreamReader.open(tmp_path, STREAM) as reader, committing(stream, gate):
        assert stream.committed() == reader.refresh() == {0: 0}
        assert stream.read().num_rows == reader.read().num_rows == 0
        assert stream.latest() == reader.latest() == {}


def test_commits_that_wait_for_a_sync_are_served_together(stream: Stream, gate: Gate) -> None:
    append(stream, 0, 8)
    ends: list[dict[int, int]] = []
    waiting = [threading.Thread(target=lambda: ends.append(stream.commit())) for _ in range(4)]
    with committing(stream, gate):
        append(stream, 8, 16)
        for thread in waiting:
            thread.start()
    for thread in waiting:
        thread.join(WAIT_MAX_S)
    assert ends == [{0: 16}] * 4
