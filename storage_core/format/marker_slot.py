"""A slot: one of the two copies of what a marker says, with a checksum of its own.

Slots of one layout lie 4,096 bytes apart and are written in turn, so that a torn write leaves
the other one whole:

    magic 4s | format u16 | spare u16 | sequence u64 | generation u64 | committed i64 |
    lineage 16s | xxh3-64 of all before

The whole slot with the highest sequence counts.
"""

import struct
from dataclasses import dataclass
from typing import Final

from storage_core.platform import xxh3

_MAGIC: Final = b"SLMK"
_FORMAT: Final = 1
_BODY: Final = struct.Struct("<4sHHQQq16s")
_CHECKSUM: Final = struct.Struct("<Q")
SLOT_BYTES: Final = _BODY.size + _CHECKSUM.size
SLOT_STRIDE: Final = 4096


@dataclass(frozen=True, slots=True)
class MarkerState:
    """What a marker says."""

    sequence: int
    generation: int
    committed: int
    lineage: bytes


def encode_slot(state: MarkerState) -> bytes:
    """Return the bytes of one slot."""
    body = _BODY.pack(
        _MAGIC, _FORMAT, 0, state.sequence, state.generation, state.committed, state.lineage
    )
    return body + _CHECKSUM.pack(xxh3.xxh3_64_intdigest(body))


def decode_slot(data: bytes) -> MarkerState | None:
    """Return what a slot says, or None if its bytes are not whole."""
    if len(data) < SLOT_BYTES:
        return None
    body = data[: _BODY.size]
    (checksum,) = _CHECKSUM.unpack_from(data, _BODY.size)
    if xxh3.xxh3_64_intdigest(body) != checksum:
        return None
    magic, version, _, sequence, generation, committed, lineage = _BODY.unpack(body)
    if magic != _MAGIC or version != _FORMAT or committed < 0:
        return None
    return MarkerState(sequence, generation, committed, lineage)


def decode_slots(data: bytes) -> list[MarkerState]:
    """Return what the whole slots of a marker say."""
    slots = (decode_slot(data[at : at + SLOT_BYTES]) for at in (0, SLOT_STRIDE))
    return [slot for slot in slots if slot is not None]
