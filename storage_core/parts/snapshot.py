"""The parts of a shard in one snapshot of it: found by address, and where their files lie.

Parts of one kind and flag share no addresses. Those of several do, each in places of its own:
seals cut all of them at once, and compactions each by itself, so that one may reach over many of
another. So there is a list for each kind and flag, by address. Were two of one list to overlap,
both would still be found.

The part lists that were read last are cached, by the sum that proves them whole: equal sums mean
equal entries, so a snapshot with a cached sum reads no entry. Any thread may ask.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol

from storage_core.errors import CorruptionError
from storage_core.format.block import BlockPlace
from storage_core.format.keys import INT64_MAX, PREFIX_PART, prefix_end
from storage_core.format.part_entry import (
    PART_LIST_SUMS,
    PartEntry,
    ShardParts,
    decode_part,
    entry_sum,
)
from storage_core.format.shard_state import (
    KEY_PART_LIST,
    KEY_PARTS,
    AddressRange,
    ShardState,
    decode_int,
)

# What is cached in all, but for the part list that was read last: some 50 MB.
ENTRIES_CACHED: Final = 100_000
_SEALED: Final = "sealed"
_VISIBLE: Final = "parts"
# Lineage, shard, sum, and how many numbers were given.
_Key = tuple[bytes, int, bytes | None, bytes | None]


class Snapshot(Protocol):
    """What of a shard's snapshot has its part list."""

    stream: str
    place: BlockPlace
    state: ShardState

    def value_at(self, key: bytes) -> bytes | None:
        """Return what lies under a key."""
        ...

    def meta_items(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the items of a range of keys."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """One file of Parquet with some of a shard's sealed rows.

    Attributes:
        shard: The shard's number.
        path: The place of its file.
        entry: What the part list says of it.
    """

    shard: int
    path: Path
    entry: PartEntry


class _Alike:
    """The parts of one kind and flag."""

    def __init__(self, parts: Sequence[PartEntry]) -> None:
        self._parts = parts
        self._firsts = [part.first for part in parts]
        # The largest address of each and of those before it.
        self._reached = list(accumulate((part.last for part in parts), max))

    def overlapping(self, start: int, end: int) -> list[PartEntry]:
        begin, behind = bisect_left(self._reached, start), bisect_left(self._firsts, end)
        return [part for part in self._parts[begin:behind] if part.last >= start]

    def around(self, address: int) -> tuple[int, int]:
        """Return the range about an address in which no part begins or ends, as far as it goes."""
        behind = bisect_right(self._firsts, address)
        end = self._firsts[behind] if behind < len(self._firsts) else INT64_MAX
        if not behind:
            return 0, end
        part = self._parts[behind - 1]
        return (part.last + 1, end) if part.last < address else (part.first, part.last + 1)


class PartIndex:
    """The entries of a part list, by first address and number. It never changes."""

    def __init__(self, entries: Sequence[PartEntry]) -> None:
        """Put them in order."""
        self.entries: Final = tuple(entries)
        alike: dict[tuple[str, bool], list[PartEntry]] = {}
        for part in self.entries:
            alike.setdefault((part.kind, part.is_out_of_order), []).append(part)
        self._alike = [_Alike(parts) for parts in alike.values()]

    def overlapping(self, start: int, end: int) -> list[PartEntry]:
        """Return the parts with addresses from one to before another, in order."""
        return self.overlapping_any((AddressRange(start, end),)) if start < end else []

    def overlapping_any(self, runs: Sequence[AddressRange]) -> list[PartEntry]:
        """Return the parts with addresses in any of some ranges, in order, each once."""
        parts = {
            (part.first, part.number): part
            for run in runs
            for alike in self._alike
            for part in alike.overlapping(run.start, run.end)
        }
        return [part for _, part in sorted(parts.items())]

    def around(self, address: int) -> AddressRange:
        """Return the longest range with an address in which no part begins or ends."""
        ranges = [alike.around(address) for alike in self._alike]
        start = max((start for start, _ in ranges), default=0)
        return AddressRange(start, min((end for _, end in ranges), default=INT64_MAX))


@cache
def _part_lists() -> dict[_Key, PartIndex]:
    """Return the part lists that are cached in this process, those read last behind the others."""
    return {}


def parts_in(snapshot: Snapshot) -> ShardParts:
    """Return the parts of a snapshot by their first address.

    Raises:
        CorruptionError: An entry is damaged or missing.
    """
    state = snapshot.state
    entries = index_of(snapshot).entries
    gaps = tuple(gap for gap in state.gaps if gap.start < state.sealed)
    return ShardParts(state.sealed, entries, state.floor, state.cut, gaps)


def index_of(snapshot: Snapshot) -> PartIndex:
    """Return the parts of a snapshot, to be found by address.

    Raises:
        CorruptionError: An entry is damaged or missing.
    """
    # By the snapshot itself: the state may be of a moment before it.
    place = snapshot.place
    entries_sum, count = snapshot.value_at(KEY_PART_LIST), snapshot.value_at(KEY_PARTS)
    key = (place.lineage, place.shard, entries_sum, count)
    # Each step is one call of the dictionary, which no other thread cuts: no lock, and none that a
    # fork could find taken.
    cached = _part_lists()
    index = cached.pop(key, None)
    if index is not None:
        cached[key] = index
        return index
    cached[key] = index = read_index(snapshot)
    lists = cached.copy()
    entries = sum(len(part_list.entries) for part_list in lists.values())
    for oldest, part_list in lists.items():
        if entries <= ENTRIES_CACHED or part_list is index:
            break
        cached.pop(oldest, None)
        entries -= len(part_list.entries)
    return index


def read_index(snapshot: Snapshot) -> PartIndex:
    """Return the parts of a snapshot as its entries have them, whatever is cached.

    Raises:
        CorruptionError: An entry is damaged or missing.
    """
    stream, shard = snapshot.stream, snapshot.place.shard
    entries = []
    total = 0
    for key, data in snapshot.meta_items(PREFIX_PART, prefix_end(PREFIX_PART)):
        try:
            entries.append(decode_part(key, data))
        except CorruptionError as error:
            raise error.placed(stream, shard) from error
        total += entry_sum(key, data)
    entries_sum = snapshot.value_at(KEY_PART_LIST)
    if total % PART_LIST_SUMS != (0 if entries_sum is None else decode_int(entries_sum)):
        message = "the part list is not whole"
        raise CorruptionError(message, stream=stream, shard=shard)
    return PartIndex(entries)


def parts_directory(shard_directory: Path) -> Path:
    """Return where the files of a shard's parts lie."""
    return shard_directory / _SEALED


def visible_directory(shard_directory: Path) -> Path:
    """Return where other programs see the files of a shard's parts."""
    return shard_directory / _VISIBLE


def part_path(directory: Path, part: PartEntry) -> Path:
    """Return the place of a part's file, in a shard's directory of parts."""
    return directory / part.file_name


def listed_part(shard: int, directory: Path, entry: PartEntry) -> Part:
    """Return a part of a shard's part list; its file has a place in a directory of parts."""
    return Part(shard, part_path(directory, entry), entry)


def listed_parts(shard: int, shard_directory: Path, entries: Iterable[PartEntry]) -> Iterator[Part]:
    """Yield the parts of a shard's part list, with the places of their files."""
    directory = parts_directory(shard_directory)
    for entry in entries:
        yield listed_part(shard, directory, entry)
