"""Opening for writing after kill -9: a shard of 2 GB whose WAL is as full as it gets.

A child writes the shard. Then each round is one child: it opens the stream, answers how long
that took, appends until its WAL is full, and kills itself there with SIGKILL, which leaves the
next round its work. A WAL grows until the memtables are flushed; the most that is seen while
the shard is written is a rare peak, and three quarters of it count as full.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.measure import Contestant, Experiment, Measured, Row
from bench.workspace import child_process
from storage_core import Stream, StreamOptions

SHARD_BYTES: Final = 2 * 2**30


@contextmanager
def _contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    Stream.create(workspace, "bench", StreamOptions(shards=1)).close()
    with child_process("fill", workspace, "bench", SHARD_BYTES) as child:
        wal_bytes_max = int(child.answer()["wal_bytes_max"])

    def killed() -> Measured:
        with child_process("open", workspace, "bench", wal_bytes_max) as child:
            opened = child.answer()
            assert opened["records"] * 100 >= SHARD_BYTES
            child.wait_for_kill()
        return opened

    # The first opens what `fill` closed.
    killed()
    yield {"killed": killed}


OPEN: Final = Experiment(
    "open",
    (
        Row(
            "open/seconds",
            "open after kill -9 of a 2 GB shard with a full WAL",
            ("killed", "seconds"),
            sense="at most",
            limit=0.5,
            wanted=0.25,
        ),
        Row(
            "open/wal",
            "the WAL that was replayed; flushes of 16 MiB memtables keep it below its 64 MiB",
            ("killed", "wal_bytes"),
        ),
    ),
    _contestants,
    bytes_needed=6 * 2**30,
)
