"""A server in a process of its own, to be killed, frozen and told to end.

with server_process(root) as process:
    process.served()        a client of it
    process.signal(number)  SIGKILL, SIGSTOP, SIGCONT
"""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core.testing import ManualClock
from tests.children import START_MAX_S, start_talking_child

_END_MAX_S = 120


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that runs elsewhere."""

    process: ForkServerProcess
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
        if number is signal.SIGKILL:
            self.process.join(_END_MAX_S)


@contextmanager
def server_process(
    root: Path,
    *,
    has_patience: bool = True,
    is_writable: bool = False,
    files_left: int | None = None,
) -> Iterator[ServerProcess]:
    """Start a server, and kill it at the end.

    Args:
        root: The root.
        has_patience: Whether its readers wait for a damaged file to become whole.
        is_writable: Whether everybody on this machine may write.
        files_left: How many more files it may have open than it has at its start.
    """
    process, connection = start_talking_child(_serve, root, has_patience, is_writable, files_left)
    try:
        assert connection.poll(START_MAX_S), "the server does not start"
        host, port = connection.recv()
        yield ServerProcess(process, host, port)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.join(_END_MAX_S)
        connection.close()


def _serve(
    asker: Connection,
    root: Path,
    has_patience: bool,
    is_writable: bool,
    files_left: int | None,
) -> None:
    if files_left is not None:
        limit = sum(1 for _ in Path("/proc/self/fd").iterdir()) + files_left
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    clock = None if has_patience else ManualClock()
    settings = ServeSettings(root=root, listen="127.0.0.1:0", is_writable=is_writable)
    with ShardServer(settings, "1.2.3", clock) as server:
        asker.send((server.host, server.port))
        with suppress(EOFError):
            asker.recv()
