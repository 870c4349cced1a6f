"""What benchmarks run in processes of their own: `python -m bench.child TASK ARGUMENT...`.

Each task answers with a line of JSON, some with more than one; a task that is to be killed
goes on until it is.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from bench.measure import latencies
from bench.read_rows import interleaved_ranges, read_ranges, scan_stream
from bench.records import PAYLOAD_BYTES, record_batches
from storage_core import Stream, StreamReader

COMMITTED_LOOKS: Final = 4000
_LOOKS_MAX: Final = 1_000_000
_FILL_ROWS: Final = 10_000
_FILL_BATCHES_MAX: Final = 500
_WAL_FULL_SHARE: Final = 0.75
_MUCH_ROWS: Final = 2000
_MUCH_PAYLOAD_BYTES: Final = 1000


def scan(root: str, name: str, rows: str) -> None:
    """Scan a stream as a reader; answer with the rate."""
    with StreamReader.open(root, name) as reader:
        assert reader.refresh() == {0: int(rows)}
        answer(scan_stream(reader, int(rows)))


def committed(root: str, name: str) -> None:
    """Ask for committed over and over while another process commits."""
    seconds = []
    with StreamReader.open(root, name) as reader:
        assert reader.wait(0, 0, 30)
        before = after = reader.committed()[0]
        for look in range(_LOOKS_MAX):
            start = time.perf_counter()
            after = reader.committed()[0]
            seconds.append(time.perf_counter() - start)
            # A loaded machine may not commit once in as many looks.
            if look >= COMMITTED_LOOKS and after > before:
                break
        assert after > before
    answer(latencies(seconds))


def ranges(root: str, name: str, rows: str) -> None:
    """Read ranges of single ids as a reader."""
    with StreamReader.open(root, name) as reader:
        assert reader.refresh() == {0: int(rows)}
        answer(read_ranges(reader.read, interleaved_ranges(int(rows))))


def fill(root: str, name: str, size: str) -> None:
    """Append until the payloads have this size; answer with the largest WAL seen."""
    wal_bytes_max = 0
    with Stream.open(root, name) as stream:
        for batch in record_batches(int(size) // (_FILL_ROWS * PAYLOAD_BYTES) + 1, _FILL_ROWS):
            stream.append_batch(batch)
            stream.commit()
            wal_bytes_max = max(wal_bytes_max, _wal_bytes(root, name))
    answer({"wal_bytes_max": wal_bytes_max})


def open_until_killed(root: str, name: str, wal_bytes_max: str) -> None:
    """Open a stream; answer how long it took; append until its WAL is full; end by SIGKILL."""
    wal_bytes = _wal_bytes(root, name)
    start = time.perf_counter()
    stream = Stream.open(root, name)
    seconds = time.perf_counter() - start
    records = stream.stats().records
    answer({"seconds": seconds, "wal_bytes": wal_bytes, "records": records})
    at = records
    for batch in record_batches(_FILL_BATCHES_MAX, _FILL_ROWS):
        primaries = pc.add(batch.column("primary"), at)
        stream.append_batch(batch.set_column(0, "primary", primaries))
        stream.commit()
        if _wal_bytes(root, name) >= _WAL_FULL_SHARE * int(wal_bytes_max):
            break
    # At once and by itself: a parent that has to wake first finds the WAL flushed.
    os.kill(os.getpid(), signal.SIGKILL)


def write_much(root: str, name: str, size: str) -> None:
    """Append payloads of one kilobyte up to this size; answer with the peak of memory."""
    batches = int(size) // (_MUCH_ROWS * _MUCH_PAYLOAD_BYTES)
    with Stream.open(root, name) as stream:
        start = time.perf_counter()
        for batch in record_batches(batches, _MUCH_ROWS, _MUCH_PAYLOAD_BYTES):
            stream.append_batch(batch)
            stream.commit()
        seconds = time.perf_counter() - start
        assert stream.committed() == {0: batches * _MUCH_ROWS}
        assert stream.stats().records == batches * _MUCH_ROWS
    answer({"memory_bytes": memory_peak(), "rate": batches * _MUCH_ROWS / seconds})


def scan_much(root: str, name: str, size: str) -> None:
    """Scan what `write_much` wrote; answer with the peak of memory."""
    rows = payload_bytes = 0
    with StreamReader.open(root, name) as reader:
        start = time.perf_counter()
        for batch in reader.scan():
            rows += batch.num_rows
            payload_bytes += batch.column("payload").nbytes
        seconds = time.perf_counter() - start
        assert rows == reader.committed()[0]
    assert payload_bytes >= int(size) * 0.99
    answer({"memory_bytes": memory_peak(), "rate": rows / seconds})


def _wal_bytes(root: str, name: str) -> int:
    """Return the size of the WALs a shard has on disk, as far as they were written."""
    total = 0
    for path in Path(root, name, "shard-0000", "db").glob("*.log"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def memory_peak() -> int:
    """Return the most memory this process ever held, in bytes."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024


def answer(measured: Mapping[str, float]) -> None:
    """Tell the parent a result."""
    print(json.dumps(measured), flush=True)


TASKS: Final[dict[str, Callable[..., None]]] = {
    "scan": scan,
    "committed": committed,
    "ranges": ranges,
    "fill": fill,
    "open": open_until_killed,
    "write_much": write_much,
    "scan_much": scan_much,
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
