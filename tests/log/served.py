"""Streams as a server shows them: the second door of a scenario that reads.

    with served(root) as address:            a server over a root, in this process
        StreamReader.open(address, name)

`door` is a fixture's parameter: `path`, or `server`.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core import ServerOptions, StreamReader

DOORS: Final = ("path", "server")
# What is refused in these scenarios stays so: nobody waits for it.
AT_ONCE: Final = ServerOptions(retry_for=timedelta(0))


@contextmanager
def served(root: Path, **settings: Any) -> Iterator[str]:
    """Serve a root on a port of this machine; yield the address as readers take it."""
    with ShardServer(ServeSettings(root=root, listen="127.0.0.1:0", **settings)) as server:
        yield f"shardlog://{server.address}"


@contextmanager
def opened_by(door: str, root: Path, name: str, **how: Any) -> Iterator[StreamReader]:
    """Open a stream for reading by a door."""
    with ExitStack() as opened:
        place: Any = root
        if door == "server":
            place = opened.enter_context(served(root))
            how["server"] = AT_ONCE
        yield opened.enter_context(StreamReader.open(place, name, **how))
