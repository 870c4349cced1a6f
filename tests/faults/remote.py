"""A writer in another process that does what it is told, one order after the other.

`RemoteWriter.do(function, *arguments)` runs `function(stream, *arguments)` over there and
returns what it returns, or raises what it raises. `start` and `finish` are its two halves, for
what blocks. The child may be stopped in the middle of a write (`stop_at_write`): `finish`
returns `STOPPED`.
"""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from storage_core import Environment, Stream
from storage_core.engine.key_value import Batch, KeyValueStore, Recovery
from storage_core.engine.rocksdb import open_store
from tests.children import start_talking_child

ANSWER_MAX_S = 120
STOPPED = "stopped in a write"


@dataclass(frozen=True, slots=True)
class RemotePlan:
    """Which stream to open, and with what write buffer."""

    root: Path
    name: str
    write_buffer_bytes: int = 256 * 1024


class StoppingStore:
    """A store that has its process stopped before a chosen write of the thread that obeys.

    The thread that writes the index writes when it likes: its writes are not counted.
    """

    def __init__(self, store: KeyValueStore, parent: Connection) -> None:
        self._store = store
        self._parent = parent
        self.writes_left = 0

    def write(self, batch: Batch) -> None:
        if threading.current_thread() is threading.main_thread():
            self._count_write()
        self._store.write(batch)

    def _count_write(self) -> None:
        self.writes_left -= 1
        if self.writes_left == 0:
            # The parent stops the process while it waits here.
            self._parent.send(STOPPED)
            self._parent.recv()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def stop_at_write(stream: Stream, write: int) -> None:
    """Have the process stopped before the n-th write to shard 0 from now."""
    store = stream._shards[0]._store
    assert isinstance(store, StoppingStore)
    store.writes_left = write


def serve_writer(parent: Connection, plan: RemotePlan) -> None:
    """Open the stream and obey until the parent hangs up."""
    opening = partial(open_store, write_buffer_bytes=plan.write_buffer_bytes)

    def open_stopping(path: Path, recovery: Recovery) -> KeyValueStore:
        return StoppingStore(opening(path, recovery), parent)

    environment = Environment(open_store=open_stopping)
    try:
        stream = Stream.open(plan.root, plan.name, environment=environment)
    except Exception as error:  # noqa: BLE001 - the parent raises it
        parent.send(error)
        return
    parent.send(None)
    while True:
        try:
            function, arguments = parent.recv()
        except EOFError:
            return
        try:
            answer = function(stream, *arguments)
        except Exception as error:  # noqa: BLE001 - the parent raises it
            answer = error
        parent.send(answer)


class RemoteWriter:
    """The parent's end: a context manager that kills the child when left."""

    def __init__(self, root: Path, name: str, **plan: Any) -> None:
        self._plan = RemotePlan(root, name, **plan)
        self._is_waiting = False

    def __enter__(self) -> Self:
        self.process, self._child = start_talking_child(serve_writer, self._plan)
        self.finish()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function on the remote stream."""
        self.start(function, *arguments)
        return self.finish()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Give an order without waiting."""
        self._child.send((function, arguments))

    def finish(self) -> Any:
        """Wait for the answer to the last order."""
        assert self._child.poll(ANSWER_MAX_S), "the writer does not answer"
        answer = self._child.recv()
        if isinstance(answer, Exception):
            raise answer
        if answer == STOPPED:
            self._is_waiting = True
            self.freeze()
        return answer

    def freeze(self) -> None:
        """Stop the process where it is."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        if self._is_waiting:
            self._child.send(None)
        self._is_waiting = False

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
