"""Heads in memory, as sorted columns.

The writer keeps two tables of one kind: the written heads, as of the last row written, and
the committed heads, as of the marker. Only the latter go to disk and answer `latest`.

A table has 28 bytes an id. A head whose `last` is at or above the address up to which heads
were written is *fresh*: it lives in memory only. Fresh heads are never evicted, so what is not
in a table is on disk as it stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.head import decode_head_values
from storage_core.format.keys import INT64_MIN
from storage_core.ids.heads.grouping import Grouping, Int32s, Int64s, Judged

HEADS_CAPACITY: Final = 2**18
# What was put is sorted in when it was put so many times, or when somebody asks.
_LATEST_MAX: Final = 16
_TWO: Final = 2
_PLACE_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Heads:
    """Heads of some secondaries, ids ascending; address -1 means there is none.

    Attributes:
        ids: The secondaries.
        values: For each a row of largest primary, its address, and the last normal address.
    """

    ids: Int32s
    values: Int64s

    @classmethod
    def none_for(cls, ids: Int32s) -> "Heads":
        """Return the absent heads of these ids."""
        values = np.full((len(ids), 3), -1)
        values[:, 0] = INT64_MIN
        return cls(ids, values)

    @property
    def primary(self) -> Int64s:
        """The largest primary of each."""
        return self.values[:, 0]

    @property
    def address(self) -> Int64s:
        """The address of the row with the largest primary of each."""
        return self.values[:, 1]

    @property
    def last(self) -> Int64s:
        """The address of the last normal row of each."""
        return self.values[:, 2]

    def where(self, chosen: npt.NDArray[np.bool_ | np.intp] | slice) -> "Heads":
        """Return the heads that a mask, places or a slice choose."""
        return Heads(self.ids[chosen], self.values[chosen])

    def fill(self, positions: npt.NDArray[np.intp], stored: Sequence[bytes | None]) -> None:
        """Take over what lies on disk of those at these places, where there is something."""
        values = [value for value in stored if value is not None]
        if values:
            self.values[positions[[value is not None for value in stored]]] = decode_head_values(
                values
            )


def heads_after(
    before: Heads, groups: Grouping, judged: Judged, primaries: Int64s, addresses: Int64s
) -> Heads:
    """Return the heads of a batch's secondaries once its rows are in."""
    after = Heads(groups.ids, before.values.copy())
    after.primary[:] = judged.maxima
    codes = groups.codes
    if judged.states is not None:
        normal = judged.states == 0
        codes, primaries, addresses = codes[normal], primaries[normal], addresses[normal]
    # Of repeated indices numpy keeps the last, which here is the highest address.
    after.last[codes] = addresses
    at_maximum = primaries == judged.maxima[codes]
    after.address[codes[at_maximum]] = addresses[at_maximum]
    return after


class HeadTable:
    """Heads in memory, sorted by id. One thread at a time.

    They lie in parts: what was put last is sorted into one, and a part that is not half as large as
    the one before it is merged with that. So a head is merged some times, and what a batch costs
    does not grow with how many heads there are.
    """

    def __init__(self, capacity: int = HEADS_CAPACITY, heads: Heads | None = None) -> None:
        """Start empty or with heads; above `capacity` heads that are on disk are let go."""
        self._capacity = capacity
        # Of an id in several parts the last has its head.
        self._parts = [Heads.none_for(np.empty(0, dtype=np.int32)) if heads is None else heads]
        self._latest: list[Heads] = []

    def __len__(self) -> int:
        return len(self._merged().ids)

    @property
    def heads(self) -> Heads:
        """A copy of all heads in memory."""
        merged = self._merged()
        return Heads(merged.ids, merged.values.copy())

    def find(self, ids: Int32s) -> tuple[Heads, npt.NDArray[np.bool_]]:
        """Return the heads of sorted ids, and which of them are in memory."""
        self._sort_in()
        heads, present = Heads.none_for(ids), np.zeros(len(ids), dtype=np.bool_)
        for part in self._parts:
            positions, is_here = _places(part, ids)
            if is_here.all():
                heads, present = Heads(ids, part.values[positions]), is_here
                continue
            heads.values[is_here] = part.values[positions[is_here]]
            present |= is_here
        return heads, present

    def put(self, heads: Heads) -> None:
        """Remember heads, ids ascending, in place of what was known of them."""
        rest = heads
        if not self._latest:
            for part in reversed(self._parts):
                positions, is_here = _places(part, rest.ids)
                if is_here.all():
                    part.values[positions] = rest.values
                    return
                part.values[positions[is_here]] = rest.values[is_here]
                rest = rest.where(~is_here)
        self._latest.append(Heads(rest.ids, rest.values.copy()))
        if len(self._latest) == _LATEST_MAX:
            self._sort_in()

    def fresh(self, written_through: int) -> Heads:
        """Return the heads that are not on disk as they stand."""
        self._sort_in()
        # Of the heads of an id none has a larger `last` than the newest.
        chosen = [part.where(part.last >= written_through) for part in self._parts]
        return _newest(chosen)

    def evict(self, written_through: int) -> None:
        """Above capacity, let go of the oldest heads that are on disk, down to half of it."""
        if self._count_at_most() <= self._capacity:
            return
        merged = self._merged()
        count = len(merged.ids)
        # What is nearly full would soon have to be merged again.
        if count <= self._capacity * 3 // 4:
            return
        last = merged.last
        oldest_kept = np.partition(last, count - self._capacity // 2)[count - self._capacity // 2]
        self._parts = [merged.where((last >= written_through) | (last >= oldest_kept))]

    def _count_at_most(self) -> int:
        """Return how many heads there are, those of an id in several parts counted in each."""
        return sum(len(part.ids) for part in (*self._parts, *self._latest))

    def _sort_in(self) -> None:
        """Make a part of what was put since, and merge it with those that are not much larger."""
        if self._latest:
            size = sum(len(heads.ids) for heads in self._latest)
            begin = len(self._parts)
            while begin and len(self._parts[begin - 1].ids) < 2 * size:
                begin -= 1
                size += len(self._parts[begin].ids)
            self._merge_from(begin)

    def _merged(self) -> Heads:
        """Return all heads, as one part."""
        if self._latest or len(self._parts) > 1:
            self._merge_from(0)
        return self._parts[0]

    def _merge_from(self, begin: int) -> None:
        parts = [*self._parts[begin:], *self._latest]
        # IMPORTANT: in this order; after an interruption between the two it is done again.
        self._parts = [*self._parts[:begin], _newest(parts)]
        self._latest = []


def _places(table: Heads, ids: Int32s) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return where each of sorted ids is or would be, and which of them are there."""
    if len(ids) == len(table.ids) and np.array_equal(ids, table.ids):
        return np.arange(len(ids)), np.ones(len(ids), dtype=np.bool_)
    positions = table.ids.searchsorted(ids)
    if not len(table.ids):
        return positions, np.zeros(len(ids), dtype=np.bool_)
    return positions, table.ids[np.minimum(positions, len(table.ids) - 1)] == ids


def _with_one(table: Heads, heads: Heads) -> Heads:
    positions, present = _places(table, heads.ids)
    values = table.values.copy()
    values[positions[present]] = heads.values[present]
    new, where = heads.where(~present), positions[~present]
    return Heads(np.insert(table.ids, where, new.ids), np.insert(values, where, new.values, axis=0))


def _newest(parts: Sequence[Heads]) -> Heads:
    """Return the last head of each id."""
    if len(parts) == 1:
        return parts[0]
    if len(parts) == _TWO:
        return _with_one(*parts)
    ids = np.concatenate([part.ids for part in parts])
    places = ids.astype(np.int64) << _PLACE_BITS | np.arange(len(ids))
    places.sort()
    is_last = np.ones(len(ids), dtype=np.bool_)
    is_last[:-1] = (places[1:] ^ places[:-1]) >> _PLACE_BITS != 0
    chosen = places[is_last] & ((1 << _PLACE_BITS) - 1)
    values = np.concatenate([part.values for part in parts])
    return Heads(ids[chosen], values.take(chosen, axis=0))
