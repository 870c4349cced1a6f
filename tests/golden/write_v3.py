"""Write the golden store of format version 3; run once, when the version was made.

    python -m tests.golden.write_v3 FOLDER

It leaves two things in FOLDER:

* `v3`, a root as a killed process left it: one shard with blocks in RocksDB's own files and blocks
  in a segment, whose end is noted; behind it lies what a batch that was never written has left.
* `v3.json`, what a reader must find in it.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import Stream, StreamOptions
from storage_core.testing import FaultyDisk, ManualClock
from tests.golden.write_v1 import COLUMNS, NOW_MS, STREAM, leave, plain

OPTIONS = StreamOptions(shards=1, unit="ms", jitter=5, block_records=2)
APART_BYTES_MIN = 1000
SEGMENT = f"{STREAM}/shard-0000/db/segments/00000001"
NEVER_WRITTEN = b"never written"


def _write(root: Path, disk: FaultyDisk) -> None:
    """Use a stream as its text above says, up to the crash."""
    disk.apart_bytes_min = APART_BYTES_MIN
    environment = disk.environment(ManualClock(wall_ns=NOW_MS * 10**6))
    stream = Stream.create(root, STREAM, OPTIONS, environment=environment)
    for number in range(3):
        stream.append(NOW_MS + 10 * number, number, b"small %d" % number)
        stream.commit()
        stream.append_batch(_batch(NOW_MS + 10 * number, 7))
        stream.commit()
        if number == 1:
            stream.close()
            stream = Stream.open(root, STREAM, environment=environment)
    # As a crash between the two steps of a write would have left it.
    with (root / SEGMENT).open("ab") as segment:
        segment.write(NEVER_WRITTEN)


def _batch(first: int, count: int) -> pa.RecordBatch:
    numbers = range(count)
    columns: dict[str, pa.Array[Any]] = {
        "primary": pa.array([first + number for number in numbers], pa.int64()),
        "secondary": pa.array([number % 3 for number in numbers], pa.int32()),
        "payload": pa.array([b"large %d" % number for number in numbers], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def told_by(stream: Stream) -> dict[str, Any]:
    """Return what a store of this version tells, as JSON can hold it."""
    return {
        "committed": stream.committed()[0],
        "latest": {str(one): record.address for one, record in stream.latest().items()},
        "order": [row["address"] for row in stream.read(columns=("address",)).to_pylist()],
        "rows": list(plain(stream.tail(0, columns=COLUMNS))),
    }


if __name__ == "__main__":
    leave(Path(sys.argv[1]), "v3", _write, told_by)
