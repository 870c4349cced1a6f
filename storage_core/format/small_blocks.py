"""Small blocks decoded together: what their rows cost, and not what each block does.

The messages of blocks with one mask, one behind the other, are a stream of Arrow's IPC format, and
Arrow reads it in one pass. Bytes come proven by their zones (block.py:prove_block). Where one block
is not what its zone says nothing is returned: whoever decodes them one by one learns which it is.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.block import (
    HEADER_BYTES,
    MASK_ADDRESS,
    MASK_COMMITTED,
    Block,
    BlockPlace,
    block_schema,
    decode_headers,
)
from storage_core.format.zone import Zone
from storage_core.platform.arrow import concat, int_array

# So many bytes of rows are decoded together: compressed ones may come to any number.
_DECODED_BYTES: Final = 8 * 2**20
_untyped: Any = pa

Headers = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]


def decode_small_blocks(
    zones: Sequence[Zone], blocks: Sequence[bytes], place: BlockPlace
) -> list[Block] | None:
    """Return the rows of several blocks as few, one for each mask; None where one is amiss.

    Each has the addresses and the times of its rows as columns, where they are not dense or one.

    Args:
        zones: Of the blocks, by address.
        blocks: Their bytes, proven.
        place: Where they belong.
    """
    headers = decode_headers(blocks, place)
    if headers is None:
        return None
    spans = np.array([(zone.first, zone.last, zone.count) for zone in zones])
    names = ("first", "last", "count")
    if any((headers[name] != spans[:, at]).any() for at, name in enumerate(names)):
        return None
    kinds = headers["mask"].astype(np.int64) << 32 | headers["schema"]
    decoded = []
    for kind in np.unique(kinds).tolist():
        alike = np.flatnonzero(kinds == kind)
        block = _as_one([blocks[at] for at in alike.tolist()], headers[alike])
        if block is None:
            return None
        decoded.append(block)
    return decoded


def _as_one(blocks: Sequence[bytes], headers: Headers) -> Block | None:
    """Return blocks of one mask, and of one schema where the mask says so, as one."""
    mask = int(headers["mask"][0])
    counts = headers["count"].astype(np.int64)
    batch = _decoded(blocks, mask, is_compressed=bool(headers["codec"].any()))
    if batch is None or batch.num_rows != counts.sum():
        return None
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    first, last = int(headers["first"][0]), int(headers["last"][-1])
    if not mask & MASK_ADDRESS:
        if (headers["last"] - headers["first"] + 1 != counts).any():
            return None
        if last - first + 1 != batch.num_rows:
            mask |= MASK_ADDRESS
            columns["address"] = int_array(_counted_up(headers["first"], counts))
    times = headers["committed_at_ms"]
    if (times != times[0]).any():
        mask |= MASK_COMMITTED
        columns["committed_at_ms"] = int_array(np.repeat(times, counts))
    schema = block_schema(mask)
    rows = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    return Block(first, last, int(times.max()), mask, rows, int(headers["schema"][0]))


def _decoded(blocks: Sequence[bytes], mask: int, *, is_compressed: bool) -> pa.RecordBatch | None:
    messages = (data[HEADER_BYTES:] for data in blocks)
    stream = b"".join((_schema_message(mask), *messages))
    size = 0
    batches = []
    try:
        for batch in pa.ipc.open_stream(stream):
            batches.append(batch)
            size += batch.get_total_buffer_size() if is_compressed else 0
            if size > _DECODED_BYTES:
                return None
        return concat(batches)
    except (pa.ArrowException, OSError):
        return None


@cache
def _schema_message(mask: int) -> bytes:
    message: bytes = _untyped.Schema.serialize(block_schema(mask)).to_pybytes()
    return message


def _counted_up(firsts: Int64s, counts: Int64s) -> Int64s:
    """Return ascending numbers, so many from each first on."""
    begins = np.cumsum(counts) - counts
    addresses: Int64s = np.arange(int(counts.sum())) + np.repeat(firsts - begins, counts)
    return addresses
