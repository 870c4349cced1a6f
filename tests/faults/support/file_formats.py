"""Just enough of the formats of files to damage one where it hurts.

Log format (WAL and MANIFEST): blocks of 32 KiB; records do not cross them but come in fragments:

    crc u32 | length u16 | type u8 | payload        types 5 to 8 carry a log number u32 before it

SST, table format 6, uncompressed index, found from the end; a trailer (compression u8, checksum
u32) follows every block and is not counted in a handle's size:

    data blocks | ... | metaindex | footer of 53 bytes: checksum type u8 | extended magic 4s |
    checksum u32 | base u32 | metaindex size u32 | ... | magic u64

A block is entries, then restart offsets u32 each, then their count u32. An entry is varints
shared, own, value length, then own bytes of the key, then the value; in the index the value is a
handle (varint offset, varint size) and its length is left out.
"""

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

LOG_BLOCK = 32 * 1024
_LOG_HEAD = 7
_LOG_NUMBER = 4
_RECYCLED_FIRST = 5
_TYPE_LAST = 8
_FOOTER = 53
_METAINDEX_SIZE_AT = 13
_TRAILER = 5
_MAGIC = struct.pack("<Q", 0x88E241B785F4CFF7)


class Span(NamedTuple):
    """Bytes of a file: [start, end)."""

    start: int
    end: int


def record_ends(path: Path) -> list[int]:
    """Return where each record fragment of a WAL or MANIFEST ends."""
    data = path.read_bytes()
    ends: list[int] = []
    offset = 0
    while offset + _LOG_HEAD <= len(data):
        left_in_block = LOG_BLOCK - offset % LOG_BLOCK
        _, length, kind = struct.unpack_from("<IHB", data, offset)
        if left_in_block < _LOG_HEAD or not 0 < kind <= _TYPE_LAST:
            offset += left_in_block
            continue
        offset += _LOG_HEAD + length + (_LOG_NUMBER if kind >= _RECYCLED_FIRST else 0)
        ends.append(offset)
    return ends


def is_whole_table(path: Path) -> bool:
    """Tell whether an SST was written to its end; one that was being written at a kill was not."""
    return path.read_bytes().endswith(_MAGIC)


def family_of(path: Path) -> str:
    """Return the column family that an SST belongs to."""
    data = path.read_bytes()
    properties = dict(_entries(data, _handle(data, b"rocksdb.properties")))
    name = properties[b"rocksdb.column.family.name"]
    return data[name.start : name.end].decode()


def data_blocks(path: Path) -> list[Span]:
    """Return the data blocks of an SST with their trailers, in file order."""
    data = path.read_bytes()
    blocks = []
    for _, value in _entries(data, _handle(data, b"rocksdb.index"), is_index=True):
        start, size = _decode_handle(data, value.start)
        blocks.append(Span(start, start + size + _TRAILER))
    return blocks


def values(path: Path, block: Span) -> list[Span]:
    """Return where the values of an uncompressed data block lie."""
    return [
        span for _, span in _entries(path.read_bytes(), Span(block.start, block.end - _TRAILER))
    ]


def blocks_of_segment(path: Path) -> list[Span]:
    """Return the blocks of a segment, by what each begins with."""
    data = path.read_bytes()
    starts = [found.start() for found in re.finditer(b"SLBK", data)]
    return [Span(*ends) for ends in pairwise([*starts, len(data)])]


def _handle(data: bytes, name: bytes) -> Span:
    (size,) = struct.unpack_from("<I", data, len(data) - _FOOTER + _METAINDEX_SIZE_AT)
    start = len(data) - _FOOTER - _TRAILER - size
    value = dict(_entries(data, Span(start, start + size)))[name]
    start, size = _decode_handle(data, value.start)
    return Span(start, start + size)


def _entries(data: bytes, block: Span, *, is_index: bool = False) -> Iterator[tuple[bytes, Span]]:
    (restarts,) = struct.unpack_from("<I", data, block.end - 4)
    end = block.end - 4 - 4 * (restarts & 0x7FFFFFFF)
    offset, key = block.start, b""
    while offset < end:
        shared, offset = _decode_varint(data, offset)
        own, offset = _decode_varint(data, offset)
        length, offset = (0, offset) if is_index else _decode_varint(data, offset)
        key = key[:shared] + data[offset : offset + own]
        offset += own
        if is_index:
            length = _handle_bytes(data, offset)
        yield key, Span(offset, offset + length)
        offset += length


def _handle_bytes(data: bytes, offset: int) -> int:
    _, after_offset = _decode_varint(data, offset)
    _, after_size = _decode_varint(data, after_offset)
    return after_size - offset


def _decode_handle(data: bytes, position: int) -> tuple[int, int]:
    offset, position = _decode_varint(data, position)
    size, _ = _decode_varint(data, position)
    return offset, size


def _decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, offset
