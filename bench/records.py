"""Records to write: seeded, of realistic shape, with random payloads.

Primaries are milliseconds that ascend from a while ago, ids are devices. Payloads come from a
small pool that is used over and over: larger than the processor's caches, small enough to be
made before the clock starts.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

DEVICES: Final = 1000
FIRST_PRIMARY: Final = 1_700_000_000_000
# Of a topic, and shards of its stream.
PARTITIONS: Final = 4
_POOL_BATCHES: Final = 16


def payload_array(rows: int, payload_bytes: int, seed: int) -> "pa.Array[Any]":
    """Return payloads of one size."""
    content = np.random.default_rng(seed).bytes(rows * payload_bytes)
    offsets = np.arange(0, (rows + 1) * payload_bytes, payload_bytes, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def record_batches(
    batches: int, rows: int, payload_bytes: int = 100, *, shuffled: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield batches for `append_batch`; each record's primary is its place in the whole.

    Args:
        batches: How many.
        rows: Records a batch.
        payload_bytes: Size of each payload.
        shuffled: Ids by chance; else in turn, so that an id has every thousandth record.
    """
    chance = np.random.default_rng(7)
    pool = [payload_array(rows, payload_bytes, seed) for seed in range(min(batches, _POOL_BATCHES))]
    for number in range(batches):
        places = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
        ids = chance.integers(0, DEVICES, rows) if shuffled else places % DEVICES
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(FIRST_PRIMARY + places),
                pa.array(ids.astype(np.int32)),
                pool[number % len(pool)],
            ],
            names=["primary", "secondary", "payload"],
        )
