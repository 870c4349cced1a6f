"""A worker whose shards are open though no broker answers, and streams that a test can hold up."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from structlog.testing import CapturingLogger

from connectors.ingest.worker import Worker
from connectors.kafka import Partition, Place
from connectors.kafka.python_fetch import fetch_results_of
from connectors.settings.loading import load_options
from storage_core import Stream
from storage_core.testing import ManualClock
from tests.unit.connectors.writers import NOWHERE, TOPIC, open_writers
from tests.waiting import WAIT_MAX_S


class AllAreRight:
    """Every topic is the one its stream was made from."""

    def ask(self, _expected: object) -> type[dict[str, Exception]]:
        return dict


@contextmanager
def open_worker(root: Path) -> Iterator[Worker]:
    """Yield a worker that owns both partitions of a topic; leaving has it leave."""
    settings = [f"root={root}", f'topics=["{TOPIC}"]', f"kafka.bootstrap.servers={NOWHERE}"]
    worker = Worker(load_options(None, settings, {}), ManualClock(), CapturingLogger())
    with open_writers(root, 2) as writers:
        worker._assignment.writers.update(writers)
        worker._consumer.begin(dict.fromkeys(writers, Place(0)))
        yield worker
        worker._leave()


def gather(worker: Worker, messages: list[Any]) -> None:
    """Gather messages as if a fetch had brought them at the clock's beginning."""
    worker._intake.take(fetch_results_of(messages), 0.0)


class Door:
    """Where an append waits, once it has come there, until somebody opens."""

    def __init__(self, wait_s: float | None = WAIT_MAX_S) -> None:
        self._wait_s = wait_s
        self._came, self._is_open = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self._came.set()
        assert self._is_open.wait(self._wait_s), "nobody opened"

    def await_comer(self) -> None:
        assert self._came.wait(WAIT_MAX_S), "nobody came"

    def open(self) -> None:
        self._is_open.set()


class ScriptedStream:
    """A stream whose appends wait at a door, or whose commits fail; else as it is."""

    def __init__(
        self, stream: Stream, door: Door | None = None, failure: Exception | None = None
    ) -> None:
        self._stream = stream
        self._door = door
        self._failure = failure

    def append_batch(self, *rows: Any, **more: Any) -> Any:
        if self._door is not None:
            # Whoever else wants the shard waits too, as for a write that hangs.
            with self._stream._shards[more["shard"]].guard.append_lock:
                self._door.pass_through()
        return self._stream.append_batch(*rows, **more)

    def commit(self) -> dict[int, int]:
        if self._failure is not None:
            raise self._failure
        return self._stream.commit()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def held_up(worker: Worker, partition: Partition) -> Iterator[Door]:
    """Have appends to a partition wait until the door is opened, at the end at the latest."""
    writer, door = worker._assignment.writers[partition], Door()
    scripted: Any = ScriptedStream(writer.stream, door)
    writer.stream = scripted
    try:
        yield door
    finally:
        door.open()
