"""Write the golden store of a stream with an origin; run once, when such streams came to be.

    python -m tests.golden.write_v1_origin FOLDER

It leaves two things in FOLDER:

* `v1-origin`, a root as a killed process left it: a stream whose shards are partitions of a topic.
  Shard 3 is born at 1000 and holds rows with keys and timestamps at addresses with gaps between
  them, late and ahead ones among them, dead letters, a range that the topic no longer had, and a
  source. Shard 5 is listed, born at 7, and was never opened.
* `v1-origin.json`, what a reader must find in it.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import Stream, StreamOptions, StreamOrigin
from storage_core.testing import FaultyDisk, ManualClock
from tests.golden.write_v1 import COLUMN_TYPES, COLUMNS, NOW_MS, leave, plain

STREAM = "events"
SHARD = 3
LATE = {1004, 1100}
ORIGIN = StreamOrigin("kafka", "events", "3fJdVhqTQ9uQz2o1Yb0mXw", "integer", "timestamp")
OPTIONS = StreamOptions(unit="ms", jitter=5, block_records=4, codec="lz4")


def _write(root: Path, disk: FaultyDisk) -> None:
    """Use a stream as its text above says, up to the end of the process."""
    Stream.create(root, STREAM, OPTIONS, origin=ORIGIN).close()
    Stream.add_shards(root, STREAM, {SHARD: 1000, 5: 7})
    environment = disk.environment(ManualClock(wall_ns=NOW_MS * 10**6))
    stream = Stream.open(root, STREAM, [SHARD], environment=environment)
    dead = {1003: b"\x00\x00\x00\x00\x09poison", 1020: b""}
    _append(stream, [1000, 1001, 1002, 1004, 1010], dead, {"next": 1021, "leader_epoch": 2})
    stream.pass_over(SHARD, 1100, source={"next": 1100, "leader_epoch": 3})
    _append(stream, [1100, 1101], {1102: b"last"}, {"next": 1105, "leader_epoch": 3})
    stream.commit()
    _append(stream, [1106], {1107: b"adopted"}, {"next": 1108, "leader_epoch": 3})


def _append(
    stream: Stream, addresses: list[int], dead: dict[int, bytes], source: dict[str, int]
) -> None:
    """Append rows of a few keys, some of them late and the last one far ahead."""
    rows: list[tuple[Any, ...]] = []
    for address in addresses:
        at = NOW_MS + 10 * address - 1_000 * (address in LATE)
        if address == addresses[-1]:
            at += 10**10
        key = address % 3
        headers = [{"key": "h", "value": None}] if key else None
        payload = None if address == addresses[1 % len(addresses)] else b"row %d" % address
        rows.append((at, key, payload, 0, key.to_bytes(4, "big"), headers, at, 0))
    columns = zip(COLUMN_TYPES.items(), zip(*rows, strict=True), strict=True)
    batch = pa.RecordBatch.from_pydict(
        {name: pa.array(values, kind) for (name, kind), values in columns}
    )
    stream.append_batch(batch, shard=SHARD, addresses=addresses, dead_letters=dead, source=source)


def told_by(stream: Stream) -> dict[str, Any]:
    """Return what a store of this stream tells, as JSON can hold it."""
    return {
        "committed": {str(shard): end for shard, end in stream.committed().items()},
        "source": stream.source(SHARD),
        "gaps": [list(gap) for gap in stream.gaps()[SHARD]],
        "dead_letters": [[at, raw.hex()] for at, raw in stream.dead_letters(SHARD)],
        "counts": [stream.stats().records, stream.stats().dead_letters, stream.stats().passed_over],
        "order": [row["address"] for row in stream.read(columns=("address",)).to_pylist()],
        "rows": list(plain(stream.tail(SHARD, columns=COLUMNS))),
    }


if __name__ == "__main__":
    leave(Path(sys.argv[1]), "v1-origin", _write, told_by)
