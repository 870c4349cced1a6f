"""A reference: what lies under a block's key in place of a block that is in a segment.

    reference = magic 4s | format u16 | spare u16 | segment u64 | offset u64 | size u64 |
                xxh3-64 of all before                                              (40 bytes)

No block is as short, so the length tells one from the other (block.py:is_reference). What the
reference names is proven like any block, by its zone; its own checksum keeps a damaged one from
asking for bytes that were never written.
"""

import struct
from typing import Final, NamedTuple

from storage_core.errors import CorruptionError
from storage_core.platform import xxh3

_REFERENCE: Final = struct.Struct("<4sHHQQQ")
_CHECKSUM: Final = struct.Struct("<Q")
_MAGIC: Final = b"SLRF"
_FORMAT: Final = 1


class Reference(NamedTuple):
    """Where a block lies: `size` bytes from `offset` on, in the segment of this number."""

    segment: int
    offset: int
    size: int


def encode_reference(reference: Reference) -> bytes:
    """Return the bytes of a reference."""
    data = _REFERENCE.pack(_MAGIC, _FORMAT, 0, *reference)
    return data + _CHECKSUM.pack(xxh3.xxh3_64_intdigest(data))


def decode_reference(data: bytes) -> Reference:
    """Return what `encode_reference` was given.

    Raises:
        CorruptionError: The bytes are not those of a reference.
    """
    (checksum,) = _CHECKSUM.unpack_from(data, _REFERENCE.size)
    if xxh3.xxh3_64_intdigest(data[: _REFERENCE.size]) != checksum:
        message = "a reference to a block does not match its checksum"
        raise CorruptionError(message)
    magic, version, _, *place = _REFERENCE.unpack_from(data)
    if magic != _MAGIC or version != _FORMAT:
        message = "a reference to a block is of another format"
        raise CorruptionError(message)
    return Reference(*place)
