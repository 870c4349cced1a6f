"""Write the golden store of format version 2; run once, when the version was made.

    python -m tests.golden.write_v2 FOLDER

It leaves two things in FOLDER:

* `v2`, a root as a killed process left it: two shards with rows of each state, attachments under
  keys that look like the log's own, and transactions: named ones of which only the last two are
  remembered, staged ones with and without a number, and one of which a part is written.
* `v2.json`, what a reader must find in it.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import StagingArea, Stream, StreamOptions, TransactionId
from storage_core.format.keys import PREFIX_ATTACHMENT, PREFIX_DONE, PREFIX_PLACE, prefix_end
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.golden.write_v1 import COLUMNS, NOW_MS, STREAM, leave, plain

OPTIONS = StreamOptions(
    shards=2, unit="ms", jitter=5, block_records=2, codec="lz4", transactions_kept=2
)
BEGUN = "begun"
ONCE = TransactionId("once")
NUMBERED = TransactionId("query", 7)
ATTACHED = (b"", b"mnext", b"t" + BEGUN.encode(), b"anything")


def _write(root: Path, disk: FaultyDisk) -> None:
    """Use a stream as its text above says, up to the crash."""
    environment = disk.environment(ManualClock(wall_ns=NOW_MS * 10**6))
    stream = Stream.create(root, STREAM, OPTIONS, environment=environment)
    for number in range(8):
        stream.append(NOW_MS + 10 * number, number % 4, b"block %d" % number)
        stream.commit()
    for secondary, moved in ((2, -500), (3, 10**12)):
        attachments = [("default", key, b"attached") for key in ATTACHED]
        rows = _batch([NOW_MS + moved], [secondary])
        stream.append_batch(rows, shard=secondary % 2, attachments=attachments)
    for number in range(3):
        _transact(stream, f"named {number}", 100 + number)
    area = StagingArea.open(root, STREAM)
    for at, transaction in ((201, NUMBERED), (202, ONCE)):
        writer = area.writer(transaction)
        writer.write(_batch([NOW_MS + at] * 2, [4, 5]))
        area.publish(transaction, writer.finish())
        stream.finish_transactions()
    stream.alter(block_records=1)
    disk.crash_at = disk.calls + 2
    with suppress(SimulatedCrash):
        _transact(stream, BEGUN, 300)


def _transact(stream: Stream, name: str, at: int) -> None:
    """Write two batches of one shard and one of the other; each batch is a write."""
    with stream.transaction(name, 3) as transaction:
        transaction.append_batch(_batch([NOW_MS + at], [6]))
        transaction.append_batch(_batch([NOW_MS + at + 1], [6]))
        if name != BEGUN:
            transaction.append_batch(_batch([NOW_MS + at], [7]))
        else:
            transaction.append_batch(_batch([NOW_MS + at + 2], [6]))


def _batch(primaries: list[int], secondaries: list[int]) -> pa.RecordBatch:
    columns: dict[str, pa.Array[Any]] = {
        "primary": pa.array(primaries, pa.int64()),
        "secondary": pa.array(secondaries, pa.int32()),
        "payload": pa.array([b"row"] * len(primaries), pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def told_by(stream: Stream) -> dict[str, Any]:
    """Return what a store of this version tells, as JSON can hold it."""
    numbers = sorted(stream.committed())
    return {
        "committed": {str(shard): end for shard, end in stream.committed().items()},
        "latest": {str(one): record.address for one, record in stream.latest().items()},
        "order": [row["primary"] for row in stream.read(columns=("primary",)).to_pylist()],
        "remembered": {str(n): list(_names(stream, n, PREFIX_DONE, 1)) for n in numbers},
        "places": {str(n): list(_names(stream, n, PREFIX_PLACE, 2)) for n in numbers},
        "attached": {str(n): list(_names(stream, n, PREFIX_ATTACHMENT, 1)) for n in numbers},
        "rows": [row for number in numbers for row in plain(stream.tail(number, columns=COLUMNS))],
    }


def _names(stream: Stream, shard: int, prefix: bytes, begin: int) -> Iterator[str]:
    view = stream._shards[shard].views.committed()
    for key, _ in view.meta_items(prefix, prefix_end(prefix)):
        yield key[begin:].hex()
    view.close()


if __name__ == "__main__":
    leave(Path(sys.argv[1]), "v2", _write, told_by)
