"""Machines, each with a disk that no other sees, their workers, and the one store.

machine.start()              a worker runs on it
machine.kill()               kill -9; its disk stays
machine.lose()               the same, and its disk is gone
machine.freeze(), wake()     as a process that gets no processor for a while
machine.committed()          up to where the shards go that its disk has
machine.reading()            those shards, read as any program does on that machine
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage_core import ForeignDataError, InvalidRequestError, StreamReader
from storage_core.lake import LAKE_OPTIONS_VARIABLE
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.waiting import await_that

# How many of its last lines a worker is asked for when something went wrong.
_LINES = 25


class Machine:
    """One machine of one test."""

    def __init__(self, lab: Lab, topic: Topic, root: Path, settings: Mapping[str, Any]) -> None:
        self.root = root
        self.is_frozen = False
        self._lab = lab
        self._topic = topic
        self._settings = dict(settings)
        self._worker: WorkerProcess | None = None
        self._is_to_run = False
        self._ended: list[WorkerProcess] = []

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def is_running(self) -> bool:
        """Whether a worker runs on it; one that ended by itself fails the test."""
        if self._is_to_run:
            assert self.worker.process.poll() is None, f"{self.name} ended\n{self.worker.said()}"
        return self._is_to_run

    @property
    def worker(self) -> WorkerProcess:
        """The worker that runs on it, or ran last."""
        assert self._worker is not None, f"nothing ran on {self.name}"
        return self._worker

    def start(self) -> None:
        worker = self._lab.doomed(self._topic, root=os.fspath(self.root), **self._settings)
        # Before that a signal ends it as it ends any process.
        worker.await_event("started")
        if self._worker is not None:
            self._ended.append(self._worker)
        self._worker, self._is_to_run = worker, True

    def stop(self, wait_s: float) -> None:
        self._is_to_run = False
        assert self.worker.stop(wait_s) == 0, self.worker.said()

    def kill(self) -> None:
        """Kill what runs on it, if anything does."""
        if self._worker is not None:
            self._worker.kill()
        self._is_to_run = self.is_frozen = False

    def lose(self) -> None:
        """Kill what runs on it, if anything does, and delete its disk."""
        self.kill()

        def is_gone() -> bool:
            # What a worker has started ends with it, and may write for a moment still.
            shutil.rmtree(self.root, ignore_errors=True)
            return not self.root.exists()

        await_that(is_gone, f"{self.root} deleted")

    def freeze(self) -> None:
        self.worker.freeze()
        self.is_frozen = True

    def wake(self) -> None:
        self.worker.wake()
        self.is_frozen = False

    def committed(self) -> dict[int, int]:
        try:
            with self.reading() as reader:
                return reader.committed()
        except (InvalidRequestError, ForeignDataError):
            # Not there yet, or a shard of it begins anew at this moment: whoever waits looks again.
            return {}

    def whole_shards(self, ends: Mapping[int, int]) -> list[int]:
        """Return the shards of which its disk has all, up to where they end."""
        return [shard for shard, end in sorted(self.committed().items()) if end == ends[shard]]

    @contextmanager
    def reading(self) -> Iterator[StreamReader]:
        with StreamReader.open(self.root, self._topic.name) as reader:
            reader.refresh()
            yield reader

    def events(self, name: str) -> int:
        """Return how often its workers have logged an event."""
        workers = self._ended if self._worker is None else [*self._ended, self._worker]
        return sum(len(worker.events(name)) for worker in workers)

    def story(self) -> str:
        """Return what its last worker said last."""
        lines = self._worker.said().splitlines()[-_LINES:] if self._worker else []
        return "\n".join([f"{self.name}, to run: {self._is_to_run}", *lines])


@contextmanager
def reaching(options_file: Path, options: Mapping[str, str]) -> Iterator[None]:
    """Let all that reads here reach the store of rows that only the lake has."""
    options_file.write_text("".join(f'{name} = "{value}"\n' for name, value in options.items()))
    before = os.environ.get(LAKE_OPTIONS_VARIABLE)
    os.environ[LAKE_OPTIONS_VARIABLE] = os.fspath(options_file)
    try:
        yield
    finally:
        if before is None:
            del os.environ[LAKE_OPTIONS_VARIABLE]
        else:
            os.environ[LAKE_OPTIONS_VARIABLE] = before
