"""The doors by which SQL is asked while rows expire: words of the scenarios.

ask = DOORS["files"]                            the files, a server, or streams that stay open
ask(root, name)                                 the primaries, in their order
happening_before_hot_rows(patch, "files", …)    once a snapshot has its parts, and no hot row yet
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from storage_core.sql import connect, stream_snapshot
from storage_core.sql.access import served_snapshot
from storage_core.sql.pool import pooled_stream
from storage_core.sql.pool.stream_pool import StreamPool
from tests.log.served import served

_QUERY: Final = 'SELECT "primary" FROM {} ORDER BY 1'
# Where the snapshots of each door list their parts.
_MODULES: Final[dict[str, Any]] = {
    "files": stream_snapshot,
    "server": served_snapshot,
    "pool": pooled_stream,
}


def ask_files(root: Path, name: str) -> list[int]:
    """Ask SQL over the files."""
    with connect(root) as streams:
        rows = streams.sql(_QUERY.format(f'"{name}"')).fetchall()
    return [primary for (primary,) in rows]


def ask_server(root: Path, name: str) -> list[int]:
    """Ask SQL over a server."""
    with served(root) as address, connect(address) as streams:
        rows = streams.sql(_QUERY.format(f'"{name}"')).fetchall()
    return [primary for (primary,) in rows]


def ask_new_pool(root: Path, name: str) -> list[int]:
    """Ask streams that were opened for this."""
    with StreamPool(root) as streams:
        return ask_pool(streams, name)


def ask_pool(streams: StreamPool, name: str) -> list[int]:
    """Ask streams that stay open."""
    with streams.query({name: None}, lambda _, rows: _QUERY.format(f"({rows[name]})")) as answer:
        batches: list[Any] = [batch.column(0) for batch in answer]
    return [primary for column in batches for primary in column.to_pylist()]


DOORS: Final = {"files": ask_files, "server": ask_server, "pool": ask_new_pool}


def happening_before_hot_rows(
    patch: pytest.MonkeyPatch, door: str, happen: Callable[[], object]
) -> None:
    """Let something happen once a snapshot by a door has its parts, and before it has hot rows."""
    module = _MODULES[door]
    listed = module.snapshot_of_shards

    def and_then(*arguments: Any) -> Any:
        shards = listed(*arguments)
        happen()
        return shards

    patch.setattr(module, "snapshot_of_shards", and_then)
