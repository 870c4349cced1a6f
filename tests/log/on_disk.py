"""What lies on the disk: read, changed and forged behind the log's back, in words of its users.

slots(marker)                     what each of the marker's two slots says, None of a damaged one
flip_bit(path, byte)              one bit of a file is another
rewrite(path, field=value)        a document says something else, under a checksum that is right

Scenarios name no module of the log; what they need to know of its files stands here.
"""

from pathlib import Path
from typing import NamedTuple

from storage_core.catalog.births import make_shard
from storage_core.catalog.options import SHARD_NUMBERS_MAX, SHARDS_MAX
from storage_core.engine.commit_marker import create_marker
from storage_core.format.keys import (
    ADDRESS_MAX,
    INT64_MAX,
    attachment_key,
    dead_letter_key,
    done_key,
    head_key,
    late_key,
    zone_key,
)
from storage_core.format.marker_slot import SLOT_BYTES, SLOT_STRIDE, MarkerState, decode_slot
from storage_core.format.shard_state import KEY_NEXT
from storage_core.platform.durable_file import encode_document, read_document
from storage_core.testing import ManualClock
from storage_core.transactions.manifest import MANIFEST_FILE, Staging

__all__ = [
    "ADDRESS_MAX",
    "SHARDS_MAX",
    "SHARD_NUMBERS_MAX",
    "attachment_key",
    "directory_of",
    "document",
    "flip_bit",
    "forge_marker",
    "make_shard",
    "manifest_of",
    "newest",
    "newest_slot_at",
    "rewrite",
    "slots",
]

SLOTS = (0, SLOT_STRIDE)
# Keys under which the log keeps what it knows; an attachment may have the same.
KEYS_OF_THE_LOG = (
    b"m",
    KEY_NEXT,
    head_key(1),
    zone_key(0),
    done_key("mine"),
    dead_letter_key(5),
    late_key(0, 1, 10**12, 0),
    late_key(2**62, 1, INT64_MAX, 0)[:9],
)


class Slot(NamedTuple):
    """What a slot of a marker says."""

    sequence: int
    generation: int
    committed: int


def slots(marker: Path) -> list[Slot | None]:
    """Return what each slot says; None of one that is damaged."""
    data = marker.read_bytes()
    return [_slot_of(decode_slot(data[at : at + SLOT_BYTES])) for at in SLOTS]


def _slot_of(state: MarkerState | None) -> Slot | None:
    return None if state is None else Slot(state.sequence, state.generation, state.committed)


def newest(marker: Path) -> Slot:
    """Return what the newest whole slot says."""
    return max(slot for slot in slots(marker) if slot is not None)


def newest_slot_at(marker: Path) -> int:
    """Return where in the file the newest slot begins."""
    return slots(marker).index(newest(marker)) * SLOT_STRIDE


def forge_marker(marker: Path, lineage: bytes = bytes(16)) -> None:
    """Put a fresh marker of some shard, or of another one, in the place of a marker."""
    create_marker(marker, 0, lineage)


def flip_bit(path: Path, byte: int, bit: int = 0) -> None:
    """Change one bit of a file; a negative byte counts from the end."""
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def document(path: Path) -> dict[str, object]:
    """Return what a JSON file of the log says."""
    return read_document(path)


def rewrite(path: Path, **fields: object) -> None:
    """Let a JSON file of the log say something else, as if it had been written so."""
    path.write_bytes(encode_document({**read_document(path), **fields}))


def directory_of(staging: Path, name: str) -> Path:
    """Return where a transaction's rows are staged."""
    return Staging(staging, ManualClock()).of(name)


def manifest_of(staging: Path, name: str) -> Path:
    """Return the file that decides a transaction."""
    return directory_of(staging, name) / MANIFEST_FILE
