"""A server over a root, as a process of the benchmarks'."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Measured
from connectors.serve.server import ShardServer
from connectors.serve.server_process import prepare_process
from connectors.serve.settings import ServeSettings


def serve(root: Path, *, is_writable: bool = False) -> Iterator[Measured]:
    """Serve a root until this process is killed; say on which port."""
    prepare_process()
    with ShardServer(
        ServeSettings(root=root, listen="127.0.0.1:0", is_writable=is_writable)
    ) as server:
        yield {"port": server.port, "pid": os.getpid()}
        threading.Event().wait()
