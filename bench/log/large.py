"""Large shards: opening after kill -9, and the most memory that a writer and a reader ever held.

For opening a child writes a shard of 2 GB. Then each round is one child: it opens the stream,
answers how long that took, appends until its WAL is full, and kills itself there with SIGKILL,
which leaves the next round its work. A WAL grows until the memtables are flushed; the most that is
seen while the shard is written is a rare peak, and three quarters of it count as full.

For memory 5 GB in payloads of one kilobyte are written and read, each by a process of its own; what
counts is the peak of resident memory, interpreter and libraries included.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from bench.child import answer_of, child_process, memory_peak
from bench.log.peers import new_stream
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import record_batches
from storage_core import Stream, StreamReader

STREAM_BYTES: Final = 5 * 10**9
_MEMORY_MAX: Final = 400 * 10**6
_SHARD_RECORDS: Final = 2 * 2**30 // 100
# Small enough for their blocks to go through the WAL, which is looked at.
_FILL_ROWS: Final = 5_000
_WAL_BYTES_MIN: Final = 10 * 10**6
_FILL_BATCHES_MAX: Final = 1000
_WAL_FULL_SHARE: Final = 0.75
_MUCH_ROWS: Final = 2000
_MUCH_PAYLOAD_BYTES: Final = 1000


@contextmanager
def _open(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    wal_bytes_max = int(answer_of(_fill, workspace)["wal_bytes_max"])

    def killed() -> Measured:
        with child_process(_open_until_killed, workspace, wal_bytes_max) as child:
            opened = child.answer()
            assert opened["records"] >= _SHARD_RECORDS
            child.wait_for_kill()
        return opened

    # The first opens what was closed in good order.
    killed()
    yield {"killed": killed}


def _fill(root: Path) -> Measured:
    """Append until the shard is large; return the largest WAL seen."""
    wal_bytes_max = 0
    with new_stream(root) as stream:
        for batch in record_batches(_SHARD_RECORDS // _FILL_ROWS + 1, _FILL_ROWS):
            stream.append_batch(batch)
            stream.commit()
            wal_bytes_max = max(wal_bytes_max, _wal_bytes(root))
    assert wal_bytes_max >= _WAL_BYTES_MIN
    return {"wal_bytes_max": wal_bytes_max}


def _open_until_killed(root: Path, wal_bytes_max: int) -> Iterator[Measured]:
    """Open the stream; tell how long it took; append until its WAL is full; end by SIGKILL."""
    wal_bytes = _wal_bytes(root)
    start = time.perf_counter()
    stream = Stream.open(root, "bench")
    seconds = time.perf_counter() - start
    records = stream.stats().records
    yield {"seconds": seconds, "wal_bytes": wal_bytes, "records": records}
    for batch in record_batches(_FILL_BATCHES_MAX, _FILL_ROWS):
        primaries = pc.add(batch.column("primary"), records)
        stream.append_batch(batch.set_column(0, "primary", primaries))
        stream.commit()
        if _wal_bytes(root) >= _WAL_FULL_SHARE * wal_bytes_max:
            break
    # At once and by itself: a parent that has to wake first finds the WAL flushed.
    os.kill(os.getpid(), signal.SIGKILL)


def _wal_bytes(root: Path) -> int:
    """Return the size of the WALs a shard has on disk, as far as they were written."""
    total = 0
    for path in (root / "bench" / "shard-0000" / "db").glob("*.log"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


@contextmanager
def _memory(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    yield {
        "writer": lambda: answer_of(write_much, workspace),
        "reader": lambda: answer_of(_scan_much, workspace),
    }


def write_much(root: Path) -> Measured:
    """Append payloads of one kilobyte, 5 GB in all; return the peak of memory."""
    batches = STREAM_BYTES // (_MUCH_ROWS * _MUCH_PAYLOAD_BYTES)
    with new_stream(root) as stream:
        for batch in record_batches(batches, _MUCH_ROWS, _MUCH_PAYLOAD_BYTES):
            stream.append_batch(batch)
            stream.commit()
        assert stream.committed() == {0: batches * _MUCH_ROWS}
        assert stream.stats().records == batches * _MUCH_ROWS
    return {"memory_bytes": memory_peak(), "records": batches * _MUCH_ROWS}


def _scan_much(root: Path) -> Measured:
    rows = payload_bytes = 0
    with StreamReader.open(root, "bench") as reader:
        for batch in reader.scan():
            rows += batch.num_rows
            payload_bytes += batch.column("payload").nbytes
        assert rows == reader.committed()[0]
    assert payload_bytes >= STREAM_BYTES * 0.99
    return {"memory_bytes": memory_peak()}


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
            sense=None,
        ),
    ),
    _open,
    bytes_needed=6 * 2**30,
)
MEMORY: Final = Experiment(
    "memory",
    tuple(
        Row(
            f"memory/{process}",
            f"peak memory of a {process} {doing} 5 GB",
            (process, "memory_bytes"),
            sense="at most",
            limit=_MEMORY_MAX,
        )
        for process, doing in (("writer", "appending"), ("reader", "scanning"))
    ),
    _memory,
    rounds_max=1,
    bytes_needed=12 * 2**30,
)
