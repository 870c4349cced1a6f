"""Memory: the most that a writer and a reader of 5 GB ever held, as the system saw it.

Payloads of one kilobyte. Each runs in a process of its own from its start to its end; what
counts is the peak of resident memory, interpreter and libraries included.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.measure import Contestant, Experiment, Measured, Row
from bench.workspace import child_process
from storage_core import Stream, StreamOptions

STREAM_BYTES: Final = 5 * 10**9
_MEMORY_MAX: Final = 400 * 10**6


@contextmanager
def _contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    Stream.create(workspace, "bench", StreamOptions(shards=1)).close()

    def writer() -> Measured:
        with child_process("write_much", workspace, "bench", STREAM_BYTES) as child:
            return child.answer()

    def reader() -> Measured:
        with child_process("scan_much", workspace, "bench", STREAM_BYTES) as child:
            return child.answer()

    yield {"writer": writer, "reader": reader}


MEMORY: Final = Experiment(
    "memory",
    (
        Row(
            "memory/writer",
            "peak memory of a writer appending 5 GB",
            ("writer", "memory_bytes"),
            sense="at most",
            limit=_MEMORY_MAX,
        ),
        Row(
            "memory/reader",
            "peak memory of a reader scanning 5 GB",
            ("reader", "memory_bytes"),
            sense="at most",
            limit=_MEMORY_MAX,
        ),
    ),
    _contestants,
    rounds_max=1,
    bytes_needed=12 * 2**30,
)
