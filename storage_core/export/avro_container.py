r"""Avro's container format: a header with the schema, then compressed blocks of rows.

header  "Obj\x01", a map of strings to bytes, 16 sync bytes
block   the number of rows, the number of bytes, these bytes, the sync bytes
"""

import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.export.manifest import Codec
from storage_core.export.memory_budget import MemoryBudget

SYNC_BYTES: Final = 16
_MAGIC: Final = b"Obj\x01"
_LEVEL: Final = 6
# Decompressed at a time.
_STEP_BYTES: Final = 2**20
_LONG_BITS: Final = 63
_untyped: Any = pa


def container_header(schema_text: str, codec: Codec, sync: bytes) -> bytes:
    """Return the header of a container."""
    fields = {"avro.schema": schema_text.encode(), "avro.codec": codec.encode()}
    pairs = [item for name, value in fields.items() for item in (name.encode(), value)]
    entries = b"".join(_long(len(item)) + item for item in pairs)
    return _MAGIC + _long(len(fields)) + entries + _long(0) + sync


def container_block(rows: bytes, count: int, codec: Codec, sync: bytes) -> bytes:
    """Return the block of `count` rows."""
    data = _compressed(rows, codec)
    return b"".join((_long(count), _long(len(data)), data, sync))


def blocks_in(data: bytes, codec: Codec, budget: MemoryBudget) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the rows of each block in the first bytes of a container.

    Raises:
        ValueError: It is not a container.
        TooLargeError: They would exceed the memory budget.
    """
    offset = len(_MAGIC)
    if not data:
        return
    while True:
        count, offset = _read_long(data, offset)
        if not count:
            break
        for _ in range(2 * count):
            size, offset = _read_long(data, offset)
            offset += size
    offset += SYNC_BYTES
    while offset < len(data):
        _, offset = _read_long(data, offset)
        size, offset = _read_long(data, offset)
        yield np.frombuffer(_decompressed(data[offset : offset + size], codec, budget), np.uint8)
        offset += size + SYNC_BYTES


def _compressed(data: bytes, codec: Codec) -> bytes:
    if codec == "zstandard":
        encoded: bytes = _untyped.Codec("zstd").compress(data, asbytes=True)
        return encoded
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


def _decompressed(data: bytes, codec: Codec, budget: MemoryBudget) -> bytearray:
    data_out = bytearray()
    for chunk in _deflate_chunks(data) if codec == "deflate" else _zstandard_chunks(data):
        budget.take(len(chunk))
        data_out += chunk
    return data_out


def _zstandard_chunks(data: bytes) -> Iterator[bytes]:
    with _untyped.CompressedInputStream(_untyped.BufferReader(data), "zstd") as stream:
        while chunk := stream.read(_STEP_BYTES):
            yield chunk


def _deflate_chunks(data: bytes) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    while not inflate.eof:
        chunk = inflate.decompress(data, _STEP_BYTES)
        data = inflate.unconsumed_tail
        if not chunk and not data:
            message = "a block is truncated"
            raise ValueError(message)
        yield chunk


def _long(number: int) -> bytes:
    """Return a count as a zigzag varint."""
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _read_long(data: bytes, offset: int) -> tuple[int, int]:
    """Return a count, and the offset after it."""
    number = shift = 0
    while shift <= _LONG_BITS:
        byte = data[offset]
        number |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte <= 0x7F:  # noqa: PLR2004 - seven bits
            return number >> 1, offset
    message = f"a varint of more than 64 bits at byte {offset}"
    raise ValueError(message)
