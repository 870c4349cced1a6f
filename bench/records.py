"""Records to write: seeded, of realistic shape, with payloads that do or do not compress.

Primaries are milliseconds that ascend from a while ago, ids are devices. Payloads come from a
small pool that is used over and over: larger than the processor's caches, small enough to be
made before the clock starts.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

PayloadKind = Literal["random", "compressible"]

DEVICES: Final = 1000
PAYLOAD_BYTES: Final = 100
FIRST_PRIMARY: Final = 1_700_000_000_000
# Of a topic, and shards of its stream.
PARTITIONS: Final = 4
_POOL_BATCHES: Final = 16
_WORDS: Final = (
    b"temperature",
    b"pressure",
    b"status=ok",
    b"unit=celsius",
    b"sensor",
    b"0.0",
    b",",
)


def payload_array(
    rows: int, payload_bytes: int, seed: int, kind: PayloadKind = "random"
) -> "pa.Array[Any]":
    """Return payloads of one size."""
    chance = np.random.default_rng(seed)
    if kind == "random":
        content = chance.bytes(rows * payload_bytes)
    else:
        picks = chance.integers(0, len(_WORDS), rows * payload_bytes // 3).tolist()
        content = b"".join(_WORDS[pick] for pick in picks)[: rows * payload_bytes]
    offsets = np.arange(0, (rows + 1) * payload_bytes, payload_bytes, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def record_batches(  # noqa: PLR0913 - the shape of a workload
    batches: int,
    rows: int,
    payload_bytes: int = PAYLOAD_BYTES,
    *,
    devices: int = DEVICES,
    kind: PayloadKind = "random",
    shuffled: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield batches for `append_batch`; each record's primary is its place in the whole.

    Args:
        batches: How many.
        rows: Records a batch.
        payload_bytes: Size of each payload.
        devices: Number of distinct ids.
        kind: What payloads are made of.
        shuffled: Ids by chance; else in turn, so that an id has every `devices`-th record.
    """
    chance = np.random.default_rng(7)
    pool = [
        payload_array(rows, payload_bytes, seed, kind)
        for seed in range(min(batches, _POOL_BATCHES))
    ]
    for number in range(batches):
        places = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
        ids = chance.integers(0, devices, rows) if shuffled else places % devices
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(FIRST_PRIMARY + places),
                pa.array(ids.astype(np.int32)),
                pool[number % len(pool)],
            ],
            names=["primary", "secondary", "payload"],
        )
