r"""Avro's container: a head with the schema, then blocks of rows, each packed by itself.

head    "Obj\x01", a map of texts to bytes, 16 bytes that also end each block
block   how many rows, how many bytes, those bytes, the 16 bytes
"""

import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.export.bounds import Room
from storage_core.export.manifest import Codec

SYNC_BYTES: Final = 16
_MAGIC: Final = b"Obj\x01"
_LEVEL: Final = 6
# So much is unpacked at a time.
_STEP_BYTES: Final = 2**20
_LONG_BITS: Final = 63
_untyped: Any = pa


def head_of(text: str, codec: Codec, sync: bytes) -> bytes:
    """Return what a container of rows of a schema begins with."""
    fields = {"avro.schema": text.encode(), "avro.codec": codec.encode()}
    pairs = [part for name, value in fields.items() for part in (name.encode(), value)]
    texts = b"".join(_long(len(part)) + part for part in pairs)
    return _MAGIC + _long(len(fields)) + texts + _long(0) + sync


def block_of(rows: bytes, count: int, codec: Codec, sync: bytes) -> bytes:
    """Return the block of so many rows."""
    data = _packed(rows, codec)
    return b"".join((_long(count), _long(len(data)), data, sync))


def blocks_in(data: bytes, codec: Codec, room: Room) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the rows of each block of the first bytes of a container.

    Raises:
        ValueError: It is no container.
        TooLargeError: They would take more than there is room for.
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
        yield np.frombuffer(_unpacked(data[offset : offset + size], codec, room), np.uint8)
        offset += size + SYNC_BYTES


def _packed(data: bytes, codec: Codec) -> bytes:
    if codec == "zstandard":
        made: bytes = _untyped.Codec("zstd").compress(data, asbytes=True)
        return made
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


def _unpacked(data: bytes, codec: Codec, room: Room) -> bytearray:
    unpacked = bytearray()
    for piece in _inflated(data) if codec == "deflate" else _of_zstandard(data):
        room.take(len(piece))
        unpacked += piece
    return unpacked


def _of_zstandard(data: bytes) -> Iterator[bytes]:
    with _untyped.CompressedInputStream(_untyped.BufferReader(data), "zstd") as stream:
        while piece := stream.read(_STEP_BYTES):
            yield piece


def _inflated(data: bytes) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    while not inflate.eof:
        piece = inflate.decompress(data, _STEP_BYTES)
        data = inflate.unconsumed_tail
        if not piece and not data:
            message = "a block ends before its rows do"
            raise ValueError(message)
        yield piece


def _long(number: int) -> bytes:
    """Return a count as Avro writes it: zigzag, seven bits a byte."""
    left, made = number << 1, bytearray()
    while left > 0x7F:  # noqa: PLR2004 - seven bits
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def _read_long(data: bytes, offset: int) -> tuple[int, int]:
    """Return what `_long` was given, and what is behind it."""
    number = shift = 0
    while shift <= _LONG_BITS:
        byte = data[offset]
        number |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte <= 0x7F:  # noqa: PLR2004 - seven bits
            return number >> 1, offset
    message = f"a number of more than 64 bits at byte {offset}"
    raise ValueError(message)
