"""Write the golden store of format version 1; run once, when the version was made.

    python -m tests.golden.write_v1 FOLDER

It leaves three things in FOLDER:

* `v1`, a root as a killed process left it: blocks in files, the newest ones in the write-ahead
  log only. One shard with normal, absorbed, late and ahead rows, tombstones, versions, the whole
  envelope, gaps between addresses, heads on disk, a source, a transaction that is done, and one
  that is published but not begun, which an opener finishes.
* `v1-damaged`, the same with one bit of one block flipped.
* `v1.json`, what a reader must find in them.

What RocksDB makes anew by itself (LOG, LOCK, OPTIONS, IDENTITY) is left out.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import Environment, Stream, StreamOptions
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.snapshots import snapshot

# What there was to read of a row when the stores were written.
COLUMNS = (
    "shard",
    "secondary",
    "primary",
    "version",
    "address",
    "late",
    "payload",
    "state",
    "committed_at_ms",
    "key",
    "headers",
    "timestamp",
    "timestamp_type",
)

STREAM = "events"
OPTIONS = StreamOptions(shards=1, unit="ms", jitter=5, block_records=1, codec="zstd")
NOW_MS = 1_700_000_000_000
LEFT_OUT = ("LOG*", "LOCK", "OPTIONS-*", "IDENTITY", "rocksdict-config.json", "owner.json")
COLUMN_TYPES: dict[str, pa.DataType] = {
    "primary": pa.int64(),
    "secondary": pa.int32(),
    "payload": pa.binary(),
    "version": pa.uint16(),
    "key": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "timestamp": pa.int64(),
    "timestamp_type": pa.int8(),
}


def plain(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield rows as JSON can hold them: bytes in hex."""
    for batch in batches:
        for row in batch.to_pylist():
            headers = row["headers"]
            if headers is not None:
                row["headers"] = [[one["key"], _hex(one["value"])] for one in headers]
            yield row | {name: _hex(row[name]) for name in ("payload", "key")}


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def rows_in(stream: Stream) -> list[dict[str, Any]]:
    """Return every row of the shard with every column."""
    return list(plain(stream.tail(0, columns=COLUMNS)))


def _write(root: Path, disk: FaultyDisk) -> None:
    """Use a stream as its text above says, up to the crash."""
    environment = disk.environment(ManualClock(wall_ns=NOW_MS * 10**6))
    with Stream.create(root, STREAM, OPTIONS, environment=environment) as stream:
        for number in range(34):
            stream.append(NOW_MS + 10 * number, number % 5 - 2, b"block %d" % number)
            if number % 4 == 3:
                stream.commit()
    stream = Stream.open(root, STREAM, environment=environment)
    stream.alter(block_records=4)
    stream.append_batch(_envelope_batch(), addresses=[100, 101, 105, 2**40], source={"next": 2**41})
    with stream.transaction("done", 2) as transaction:
        transaction.append(NOW_MS + 5_000, 7, None)
        transaction.append(NOW_MS + 4_000, 7, b"late in a transaction", 9)
    stream.append(NOW_MS + 10**12, 1, b"far ahead")
    stream.commit()
    disk.crash_at = disk.calls + 1
    with suppress(SimulatedCrash), stream.transaction("begun", 2) as transaction:
        transaction.append(NOW_MS + 6_000, 7, b"staged")
        transaction.append(NOW_MS + 6_001, 8, b"")


def _envelope_batch() -> pa.RecordBatch:
    at = NOW_MS + 1_000
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    rows = [
        (at, 1, b"normal", 0, b"key", headers, at, 0),
        (at - 3, 1, b"absorbed", 1, None, None, None, None),
        (at - 500, 1, b"late", 2, b"", [], -1, -1),
        (at + 1, -2, None, 65_535, b"tombstone", None, at, 1),
    ]
    columns = zip(COLUMN_TYPES.items(), zip(*rows, strict=True), strict=True)
    return pa.RecordBatch.from_pydict(
        {name: pa.array(values, kind) for (name, kind), values in columns}
    )


def _damage(root: Path) -> None:
    """Flip a bit of the payload of the first block that lies in a file."""
    for path in sorted((root / STREAM / "shard-0000" / "db").glob("*.sst")):
        data = bytearray(path.read_bytes())
        at = data.find(b"SLBK")
        if at >= 0:
            data[at + 200] ^= 1
            path.write_bytes(data)
            return


def open_later(root: Path) -> Stream:
    """Open the store for writing at a moment that is always the same."""
    later = ManualClock(wall_ns=(NOW_MS + 60_000) * 10**6)
    return Stream.open(root, STREAM, environment=Environment(clock=later))


def _told_by(stream: Stream) -> dict[str, Any]:
    return {
        "committed": stream.committed()[0],
        "source": stream.source(0),
        "latest": {str(one): record.address for one, record in stream.latest().items()},
        "order": [row["address"] for row in stream.read(columns=("address",)).to_pylist()],
        "rows": rows_in(stream),
    }


def leave(
    folder: Path,
    name: str,
    write: Callable[[Path, FaultyDisk], None],
    told_by: Callable[[Stream], dict[str, Any]],
) -> None:
    """Leave in a folder a store as a killed process left it, and what it tells."""
    with tempfile.TemporaryDirectory() as scratch:
        live, opened = Path(scratch, "live"), Path(scratch, "opened")
        disk = FaultyDisk()
        write(live, disk)
        snapshot(live, folder / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
        disk.bury()
        shutil.copytree(folder / name, opened)
        with open_later(opened) as stream:
            expected = told_by(stream)
    rows = ",\n".join(json.dumps(row) for row in expected.pop("rows"))
    text = f'{json.dumps(expected)[:-1]}, "rows": [\n{rows}\n]}}\n'
    (folder / f"{name}.json").write_text(text)


def main(folder: Path) -> None:
    """Write everything into a folder where none of it is yet."""
    leave(folder, "v1", _write, _told_by)
    shutil.copytree(folder / "v1", folder / "v1-damaged")
    _damage(folder / "v1-damaged")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
