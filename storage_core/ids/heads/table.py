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
# What was put is sorted in by so many parts, or when somebody asks.
_PARTS_MAX: Final = 16
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
    """Heads in memory, sorted by id. One thread at a time."""

    def __init__(self, capacity: int = HEADS_CAPACITY, heads: Heads | None = None) -> None:
        """Start empty or with heads; above `capacity` heads that are on disk are let go."""
        self._capacity = capacity
        self._heads = Heads.none_for(np.empty(0, dtype=np.int32)) if heads is None else heads
        self._latest: list[Heads] = []

    def __len__(self) -> int:
        return len(self._settled().ids)

    @property
    def heads(self) -> Heads:
        """A copy of all heads in memory."""
        settled = self._settled()
        return Heads(settled.ids, settled.values.copy())

    def find(self, ids: Int32s) -> tuple[Heads, npt.NDArray[np.bool_]]:
        """Return the heads of sorted ids, and which of them are in memory."""
        settled = self._settled()
        positions, present = _places(settled, ids)
        if present.all():
            return Heads(ids, settled.values[positions]), present
        heads = Heads.none_for(ids)
        heads.values[present] = settled.values[positions[present]]
        return heads, present

    def put(self, heads: Heads) -> None:
        """Remember heads, ids ascending, in place of what was known of them."""
        if not self._latest:
            settled = self._heads
            positions, present = _places(settled, heads.ids)
            if present.all():
                settled.values[positions] = heads.values
                return
        self._latest.append(Heads(heads.ids, heads.values.copy()))
        if len(self._latest) == _PARTS_MAX:
            self._settled()

    def fresh(self, written_through: int) -> Heads:
        """Return the heads that are not on disk as they stand."""
        settled = self._settled()
        return settled.where(settled.last >= written_through)

    def evict(self, written_through: int) -> None:
        """Above capacity, let go of the oldest heads that are on disk, down to half of it."""
        settled = self._settled()
        count = len(settled.ids)
        if count <= self._capacity:
            return
        last = settled.last
        oldest_kept = np.partition(last, count - self._capacity // 2)[count - self._capacity // 2]
        self._heads = settled.where((last >= written_through) | (last >= oldest_kept))

    def _settled(self) -> Heads:
        """Return all heads, sorted, once what was put since is among them."""
        if self._latest:
            parts = [self._heads, *self._latest]
            # IMPORTANT: in this order; after an interruption between the two it is done again.
            self._heads = _with_one(*parts) if len(parts) == _TWO else _newest(parts)
            self._latest = []
        return self._heads


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
    ids = np.concatenate([part.ids for part in parts])
    places = ids.astype(np.int64) << _PLACE_BITS | np.arange(len(ids))
    places.sort()
    is_last = np.ones(len(ids), dtype=np.bool_)
    is_last[:-1] = (places[1:] ^ places[:-1]) >> _PLACE_BITS != 0
    chosen = places[is_last] & ((1 << _PLACE_BITS) - 1)
    values = np.concatenate([part.values for part in parts])
    return Heads(ids[chosen], values.take(chosen, axis=0))
