"""Where the future-dated records of each id are, whatever window their primaries claim.

    key    f secondary primary address      value  empty

A head knows the largest primary of its id's normal records, and a late record is late because
it lies below that. Only a future-dated record, which moves no head, can lie above it. So each has a
key by its id, written in the batch of the record itself, and `latest` reads the last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    PREFIX_AHEAD,
    ahead_key,
    decode_ahead_key,
)
from storage_core.read.snapshot import ShardSnapshot

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Where rows lie: for each its id, its primary and its address."""

    ids: Int32s
    primary: Int64s
    address: Int64s

    @classmethod
    def of(cls, places: list[_Place]) -> "RowPlaces":
        """Return places given as (secondary, primary, address)."""
        table = np.array(places, dtype=np.int64).reshape(-1, 3)
        return cls(table[:, 0].astype(np.int32), table[:, 1], table[:, 2])

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self.ids)

    def where(self, chosen: npt.NDArray[np.bool_] | Int64s | slice) -> "RowPlaces":
        """Return the places that a mask, positions or a slice choose."""
        return RowPlaces(self.ids[chosen], self.primary[chosen], self.address[chosen])

    def and_those(self, other: "RowPlaces") -> "RowPlaces":
        """Return both one behind the other."""
        return RowPlaces(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.primary, other.primary)),
            np.concatenate((self.address, other.address)),
        )

    def newest(self) -> "RowPlaces":
        """Return of each id the place with the largest primary, of equals the largest address."""
        if not len(self):
            return self
        order = np.lexsort((self.address, self.primary, self.ids))
        ids = self.ids[order]
        is_last = np.append(ids[1:] != ids[:-1], [True])
        return self.where(order[is_last])


def newest_ahead(snapshot: ShardSnapshot, ids: Int32s | None) -> RowPlaces:
    """Return the newest future-dated record of each of sorted ids (None: of all) that has one."""
    if not snapshot.state.tail.counters.ahead:
        return RowPlaces.of([])
    places = (_newest_of(snapshot, secondary) for secondary in _ids_with_keys(snapshot, ids))
    return RowPlaces.of([place for place in places if place is not None])


def ahead_between(snapshot: ShardSnapshot, ids: Int32s | None, start: int, end: int) -> RowPlaces:
    """Return the future-dated records of sorted ids (None: of all) in a range of primaries."""
    if not snapshot.state.tail.counters.ahead:
        return RowPlaces.of([])
    places: list[_Place] = []
    for secondary in _ids_with_keys(snapshot, ids):
        first, last = ahead_key(secondary, start, 0), ahead_key(secondary, end, INT64_MAX)
        keys = (key for key, _ in snapshot.meta_items(first, last + b"\x00"))
        places.extend(place for place in map(decode_ahead_key, keys) if snapshot.shows(place[2]))
    return RowPlaces.of(places)


def ids_with_ahead_below(snapshot: ShardSnapshot, primary: int) -> Iterator[int]:
    """Yield the ids that have a future-dated record below a primary, with one seek each id."""
    secondary = INT32_MIN
    while secondary <= INT32_MAX:
        item = snapshot.item_at_or_after(ahead_key(secondary, INT64_MIN, 0))
        if item is None or item[0][:1] != PREFIX_AHEAD:
            return
        holder, least, _ = decode_ahead_key(item[0])
        if least < primary:
            yield holder
        secondary = holder + 1


def _newest_of(snapshot: ShardSnapshot, secondary: int) -> _Place | None:
    """Return an id's newest future-dated record that the snapshot shows."""
    key = ahead_key(secondary, INT64_MAX, INT64_MAX)
    while True:
        item = snapshot.item_at_or_before(key)
        if item is None or item[0] < ahead_key(secondary, INT64_MIN, 0):
            return None
        place = decode_ahead_key(item[0])
        if snapshot.shows(place[2]):
            return place
        key = (int.from_bytes(item[0], "big") - 1).to_bytes(len(item[0]), "big")


def _ids_with_keys(snapshot: ShardSnapshot, ids: Int32s | None) -> Iterator[int]:
    """Yield those of sorted ids (None: of all) with future-dated records, one seek each."""
    secondary = INT32_MIN
    while secondary <= INT32_MAX:
        if ids is not None:
            position = int(ids.searchsorted(secondary))
            if position == len(ids):
                return
            secondary = int(ids[position])
        item = snapshot.item_at_or_after(ahead_key(secondary, INT64_MIN, 0))
        if item is None or item[0][:1] != PREFIX_AHEAD:
            return
        holder = decode_ahead_key(item[0])[0]
        if ids is None or holder == secondary:
            yield holder
            holder += 1
        secondary = holder
