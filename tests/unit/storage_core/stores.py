"""Words for tests of bare stores: numbers put under keys, in both families alike."""

import shutil
from pathlib import Path

from storage_core.rocks import Batch, RocksStore, open_store

FAMILIES = ("default", "log")


def put(
    store: RocksStore, *numbers: int, size: int = 100, families: tuple[str, ...] = FAMILIES
) -> None:
    """Write a value under each number, the same in each family, each in a batch of its own."""
    for number in numbers:
        batch = Batch()
        for family in families:
            batch.put(key_of(number), number.to_bytes(size, "big"), family)
        store.write(batch)


def key_of(number: int) -> bytes:
    return b"z" + number.to_bytes(4, "big")


def numbers_in(store: RocksStore, family: str = "default", start: int = 0) -> list[int]:
    """Return the numbers under which there are values."""
    view = store.view()
    try:
        keys = [key for key, _ in view.items(family, key_of(start), None)]
    finally:
        view.close()
    return [int.from_bytes(key[1:], "big") for key in keys]


def filled(path: Path, count: int = 200, families: tuple[str, ...] = FAMILIES) -> None:
    """Make a closed store of so many values; closing moves them to files."""
    store = open_store(path, "strict")
    put(store, *range(count), families=families)
    store.close()


def left_by_a_crash(store: RocksStore, copy: Path) -> Path:
    """Return a copy of a store's files as the kernel has them at this moment."""
    store.sync()
    shutil.copytree(store.path, copy)
    return copy


def cut(path: Path) -> None:
    """Cut some bytes off a file's end."""
    path.write_bytes(path.read_bytes()[:-10])
