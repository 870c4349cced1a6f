"""SQL over a server against SQL by path, each by a client in a process of its own.

The server has one process of its own as well. Rows of one stream are sealed, those of the other
are hot: DuckDB runs at the client, so of the first the column chunks travel that a query reads, of
the others all.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.child import answer_of, child_process
from bench.log.peers import ONE_SHARD
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import record_batches
from bench.serve.process import serve
from storage_core import Stream
from storage_core.sql import connect

_ROWS: Final = 2_000_000
_BATCH_ROWS: Final = 10_000
_SEALED: Final = "sealed"
_HOT: Final = "hot"
_QUERY: Final = (
    'SELECT secondary % 10 AS k, count(*), avg("primary"), max(address) FROM {} GROUP BY k'
)


@contextmanager
def _serve(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    for name in (_SEALED, _HOT):
        with Stream.create(workspace, name, ONE_SHARD) as stream:
            for batch in record_batches(_ROWS // _BATCH_ROWS, _BATCH_ROWS, shuffled=False):
                stream.append_batch(batch)
                stream.commit()
            if name == _SEALED:
                stream.seal()
    with child_process(serve, workspace) as child:
        address = f"shardlog://127.0.0.1:{child.answer()['port']:.0f}"
        yield {
            f"{name} by {door}": partial(answer_of, _ask, place, name)
            for name in (_SEALED, _HOT)
            for door, place in (("path", str(workspace)), ("server", address))
        }


def _ask(place: str, name: str) -> Measured:
    """Ask once over a new connection, then again over the same one."""
    start = time.perf_counter()
    with connect(place, [name]) as streams:
        assert len(streams.sql(_QUERY.format(name)).fetchall()) == 10
        first = time.perf_counter()
        assert streams.sql(_QUERY.format(name)).fetchall()
        return {"first": first - start, "again": time.perf_counter() - first}


SERVE_SQL: Final = Experiment(
    "serve-sql",
    tuple(
        Row(
            f"serve-sql/{name}{suffix}",
            f"SQL over 2 M {name} rows by a server against by path, {when}",
            (f"{name} by server", field),
            (f"{name} by path", field),
            sense="at most",
        )
        for name in (_SEALED, _HOT)
        for field, suffix, when in (
            ("first", "", "with the snapshot"),
            ("again", "-again", "over the same snapshot"),
        )
    ),
    _serve,
)
