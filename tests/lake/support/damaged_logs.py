"""What may be wrong with a shard's log: each does it to the shard's directory."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_core.format.marker_slot import SLOT_STRIDE, decode_slots


def spoil_store(shard: Path) -> None:
    for file in (shard / "db").iterdir():
        if file.name.startswith(("MANIFEST", "CURRENT")):
            file.write_bytes(b"nothing of RocksDB's")


def lose_store(shard: Path) -> None:
    shutil.rmtree(shard / "db")


def lose_marker(shard: Path) -> None:
    (shard / "marker").unlink()


def spoil_marker(shard: Path) -> None:
    (shard / "marker").write_bytes(bytes(8192))


def spoil_newest_slot(shard: Path) -> None:
    data = bytearray((shard / "marker").read_bytes())
    newest = max(decode_slots(bytes(data)), key=lambda slot: slot.sequence)
    begin = (newest.sequence & 1) * SLOT_STRIDE
    data[begin : begin + 16] = bytes(16)
    (shard / "marker").write_bytes(data)


def lose_shard(shard: Path) -> None:
    shutil.rmtree(shard)


def lose_all_but_marker(shard: Path) -> None:
    for place in shard.iterdir():
        if place.is_dir():
            shutil.rmtree(place)


DAMAGES: Final[tuple[Callable[[Path], None], ...]] = (
    spoil_store,
    lose_store,
    lose_marker,
    spoil_marker,
    spoil_newest_slot,
    lose_shard,
    lose_all_but_marker,
)
