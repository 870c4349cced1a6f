"""Which parts a shard has at one moment, as its catalogue says, and where their files lie.

The entries of the catalogues that were read last are kept, by the sum that proves them whole: equal
sums mean equal entries, so a view that shows a known sum needs to read none.
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

from storage_core.errors import CorruptionError
from storage_core.format.keys import PREFIX_PART, prefix_end
from storage_core.format.part_entry import (
    CATALOGUE_SUMS,
    PartEntry,
    ShardParts,
    decode_part,
    entry_sum,
)
from storage_core.format.shard_state import KEY_CATALOGUE, KEY_PARTS, decode_int
from storage_core.platform.fork_guard import register
from storage_core.read.cold.part_index import PartIndex
from storage_core.read.view import ShardView

# What is kept in all, but for the catalogue that was read last: some 50 MB.
ENTRIES_KEPT: Final = 100_000
_SEALED: Final = "sealed"
_VISIBLE: Final = "parts"
# Lineage, shard, sum, and how many numbers were given.
_Key = tuple[bytes, int, int, bytes | None]


@dataclass(frozen=True, slots=True)
class Part:
    """One file of Parquet with some of a shard's sealed rows.

    Attributes:
        shard: The shard's number.
        path: The file.
        entry: What the catalogue says of it.
    """

    shard: int
    path: Path
    entry: PartEntry


class _KeptParts:
    """The catalogues that a process keeps. Any thread may ask."""

    def __init__(self) -> None:
        self._begin()

    def get(self, key: _Key) -> PartIndex | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: _Key, index: PartIndex) -> None:
        with self._lock:
            self._kept[key] = index
            self._kept.move_to_end(key)
            count = sum(len(one.entries) for one in self._kept.values())
            while count > ENTRIES_KEPT and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                count -= len(gone.entries)

    def leave_to_parent(self, _process: int) -> None:
        """Begin anew in a fork: another thread may have held the lock."""
        self._begin()

    def _begin(self) -> None:
        self._kept: OrderedDict[_Key, PartIndex] = OrderedDict()
        self._lock = Lock()
        register(self)


@cache
def _kept_parts() -> _KeptParts:
    return _KeptParts()


def parts_in(view: ShardView) -> ShardParts:
    """Return the parts of a view by their first address.

    Raises:
        CorruptionError: An entry is damaged or missing.
    """
    state = view.state
    entries = index_of(view).entries
    gaps = tuple(one for one in state.gaps if one.start < state.sealed)
    return ShardParts(state.sealed, entries, state.floor, state.cut, gaps)


def index_of(view: ShardView) -> PartIndex:
    """Return the parts of a view, to be found by address.

    Raises:
        CorruptionError: An entry is damaged or missing.
    """
    # By the view itself: the state may be of a moment before it.
    place = view.place
    key = (place.lineage, place.shard, _sum_in(view), view.value_at(KEY_PARTS))
    found = _kept_parts().get(key)
    if found is None:
        found = read_index(view)
        _kept_parts().put(key, found)
    return found


def read_index(view: ShardView) -> PartIndex:
    """Return the parts of a view as its entries have them at this moment, whatever is kept.

    Raises:
        CorruptionError: An entry is damaged or missing.
    """
    found = []
    total = 0
    for key, data in view.meta_items(PREFIX_PART, prefix_end(PREFIX_PART)):
        try:
            found.append(decode_part(key, data))
        except CorruptionError as error:
            raise error.placed(view.stream, view.shard) from error
        total += entry_sum(key, data)
    if _sum_in(view) != total % CATALOGUE_SUMS:
        message = "the catalogue of parts is not whole"
        raise CorruptionError(message, stream=view.stream, shard=view.shard)
    return PartIndex(found)


def _sum_in(view: ShardView) -> int:
    noted = view.value_at(KEY_CATALOGUE)
    return 0 if noted is None else decode_int(noted)


def parts_directory(shard_directory: Path) -> Path:
    """Return where the files of a shard's parts lie."""
    return shard_directory / _SEALED


def visible_directory(shard_directory: Path) -> Path:
    """Return where other programs see the files of a shard's parts."""
    return shard_directory / _VISIBLE


def part_path(directory: Path, part: PartEntry) -> Path:
    """Return the file of a part, of a shard's directory of parts."""
    return directory / part.file_name
