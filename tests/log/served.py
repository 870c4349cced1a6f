"""Streams as a server shows them: the second door of a scenario that reads.

    with served(root) as address:            a server over a root, in this process
        StreamReader.open(address, name)
    with listening(root) as server:          the same, to be closed by the scenario
        with reading(server.address, name) as reader: …

`door` is a fixture's parameter: `path`, or `server`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core import ServerOptions, StreamReader
from tests.log.workbench import Workbench

DOORS: Final = ("path", "server")
# What is refused in these scenarios stays so: nobody waits for it.
AT_ONCE: Final = ServerOptions(retry_for=timedelta(0))
PATIENT: Final = ServerOptions(retry_for=timedelta(seconds=120))


def two_shards(make_bench: Callable[..., Workbench]) -> Workbench:
    """Return a stream of two shards with 3,000 rows of three ids, in blocks of 500."""
    bench = make_bench(shards=2, block_records=500)
    for secondary in range(3):
        bench.append(range(1000), secondary=secondary)
    bench.commit()
    return bench


@contextmanager
def listening(root: Path, **settings: Any) -> Iterator[ShardServer]:
    """Serve a root on a port of this machine."""
    with ShardServer(ServeSettings(root=root, listen="127.0.0.1:0", **settings)) as server:
        yield server


@contextmanager
def reading(address: str, name: str, options: ServerOptions = AT_ONCE) -> Iterator[StreamReader]:
    """Open a stream of a server for reading."""
    with StreamReader.open(f"shardlog://{address}", name, server=options) as reader:
        yield reader


@contextmanager
def served(root: Path, **settings: Any) -> Iterator[str]:
    """Serve a root on a port of this machine; yield the address as readers take it."""
    with listening(root, **settings) as server:
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
