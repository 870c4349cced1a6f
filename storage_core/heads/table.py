"""Heads: per secondary the largest primary, its address, and the last normal address.

The writer keeps two tables of one kind: the written heads, as of the last row written, and
the committed heads, as of the marker. Only the latter go to disk and answer `latest`.

    head value: primary i64 | address i64 | last i64

A table is four sorted arrays, 28 bytes an id. A head whose `last` is at or above the address
up to which heads were written is *fresh*: it lives in memory only. Fresh heads are never
evicted, so what is not in a table is on disk as it stands.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import CorruptionError
from storage_core.format.keys import INT64_MIN, PREFIX_HEAD
from storage_core.heads.grouping import Grouping, Judged

_VALUE: Final = struct.Struct("<qqq")
HEADS_CAPACITY: Final = 2**18

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


def encode_head(primary: int, address: int, last: int) -> bytes:
    """Return the bytes under a head's key."""
    return _VALUE.pack(primary, address, last)


def decode_head(data: bytes) -> tuple[int, int, int]:
    """Return primary, address and last address.

    Raises:
        CorruptionError: The bytes are no head.
    """
    if len(data) != _VALUE.size:
        message = "a head has another length than heads have"
        raise CorruptionError(message)
    primary, address, last = _VALUE.unpack(data)
    return primary, address, last


def decode_heads(items: Sequence[tuple[bytes, bytes]]) -> "Heads":
    """Return the heads from their keys and values, given in order.

    Raises:
        CorruptionError: One is no head.
    """
    data = b"".join([part for item in items for part in item])
    if len(data) != len(items) * _ITEM_DTYPE.itemsize:
        message = "a head has another length than heads have"
        raise CorruptionError(message)
    table = np.frombuffer(data, dtype=_ITEM_DTYPE)
    ids = (table["secondary"].astype(np.uint32) ^ np.uint32(1 << 31)).view(np.int32)
    columns = (table["primary"], table["address"], table["last"])
    return Heads(ids, *(column.astype(np.int64) for column in columns))


_ITEM_DTYPE: Final = np.dtype(
    [
        ("prefix", "S1"),
        ("secondary", ">u4"),
        ("primary", "<i8"),
        ("address", "<i8"),
        ("last", "<i8"),
    ]
)
_KEY_BYTES: Final = 5


def encode_heads(heads: "Heads") -> list[tuple[bytes, bytes]]:
    """Return key and value of each head, built in one pass."""
    table = np.empty(len(heads.ids), dtype=_ITEM_DTYPE)
    table["prefix"] = PREFIX_HEAD
    table["secondary"] = heads.ids.astype(np.uint32) ^ np.uint32(1 << 31)
    table["primary"], table["address"], table["last"] = heads.primary, heads.address, heads.last
    data, size = table.tobytes(), _ITEM_DTYPE.itemsize
    return [
        (data[at : at + _KEY_BYTES], data[at + _KEY_BYTES : at + size])
        for at in range(0, len(data), size)
    ]


@dataclass(frozen=True, slots=True)
class Heads:
    """Heads of some secondaries, ids ascending; address -1 means there is none."""

    ids: Int32s
    primary: Int64s
    address: Int64s
    last: Int64s

    @classmethod
    def none_for(cls, ids: Int32s) -> "Heads":
        """Return the absent heads of these ids."""
        count = len(ids)
        return cls(ids, np.full(count, INT64_MIN), np.full(count, -1), np.full(count, -1))

    def where(self, mask: npt.NDArray[np.bool_]) -> "Heads":
        """Return the heads the mask chooses."""
        return Heads(self.ids[mask], self.primary[mask], self.address[mask], self.last[mask])

    def where_at(self, at: npt.NDArray[np.intp]) -> "Heads":
        """Return the heads at these places."""
        return Heads(self.ids[at], self.primary[at], self.address[at], self.last[at])


def heads_after(
    before: Heads, groups: Grouping, judged: Judged, primaries: Int64s, addresses: Int64s
) -> Heads:
    """Return the heads of a batch's secondaries once its rows are in."""
    address, last = before.address.copy(), before.last.copy()
    codes = groups.codes
    if judged.states is not None:
        normal = judged.states == 0
        codes, primaries, addresses = codes[normal], primaries[normal], addresses[normal]
    # Of repeated indices numpy keeps the last, which here is the highest address.
    last[codes] = addresses
    at_maximum = primaries == judged.maxima[codes]
    address[codes[at_maximum]] = addresses[at_maximum]
    return Heads(groups.ids, judged.maxima, address, last)


class HeadTable:
    """Heads in memory, sorted by id. One thread at a time."""

    def __init__(self, capacity: int = HEADS_CAPACITY, heads: Heads | None = None) -> None:
        """Start empty or with heads; above `capacity` heads that are on disk are let go."""
        self._capacity = capacity
        self._heads = Heads.none_for(np.empty(0, dtype=np.int32)) if heads is None else heads

    def __len__(self) -> int:
        """Return the number of heads in memory."""
        return len(self._heads.ids)

    @property
    def heads(self) -> Heads:
        """A copy of all heads in memory."""
        known = self._heads
        columns = (known.primary, known.address, known.last)
        return Heads(known.ids, *(column.copy() for column in columns))

    def find(self, ids: Int32s) -> tuple[Heads, npt.NDArray[np.bool_]]:
        """Return the heads of sorted ids, and which of them are in memory."""
        known = self._heads
        if len(ids) == len(known.ids) and np.array_equal(ids, known.ids):
            return self.heads, np.ones(len(ids), dtype=np.bool_)
        if not len(known.ids):
            return Heads.none_for(ids), np.zeros(len(ids), dtype=np.bool_)
        at = known.ids.searchsorted(ids)
        if len(at) and int(at[-1]) == len(known.ids):
            at = np.minimum(at, len(known.ids) - 1)
        present = known.ids[at] == ids
        if present.all():
            return Heads(ids, known.primary[at], known.address[at], known.last[at]), present
        found = Heads.none_for(ids)
        chosen = at[present]
        found.primary[present] = known.primary[chosen]
        found.address[present] = known.address[chosen]
        found.last[present] = known.last[chosen]
        return found, present

    def put(self, heads: Heads) -> None:
        """Remember heads, ids ascending, in place of what was known of them."""
        known = self._heads
        if len(heads.ids) == len(known.ids) and np.array_equal(heads.ids, known.ids):
            # A copy, since the table's own columns are written in place.
            columns = (heads.primary, heads.address, heads.last)
            self._heads = Heads(known.ids, *(column.copy() for column in columns))
            return
        at = known.ids.searchsorted(heads.ids)
        present = np.zeros(len(heads.ids), dtype=np.bool_)
        if len(known.ids):
            present = known.ids[np.minimum(at, len(known.ids) - 1)] == heads.ids
        if present.all():
            known.primary[at], known.address[at] = heads.primary, heads.address
            known.last[at] = heads.last
            return
        slots = at[present]
        known.primary[slots] = heads.primary[present]
        known.address[slots] = heads.address[present]
        known.last[slots] = heads.last[present]
        new = heads.where(~present)
        where = at[~present]
        self._heads = Heads(
            np.insert(known.ids, where, new.ids),
            np.insert(known.primary, where, new.primary),
            np.insert(known.address, where, new.address),
            np.insert(known.last, where, new.last),
        )

    def fresh(self, written_through: int) -> Heads:
        """Return the heads that are not on disk as they stand."""
        return self._heads.where(self._heads.last >= written_through)

    def evict(self, written_through: int) -> None:
        """Above capacity, let go of the oldest heads that are on disk, down to half of it."""
        count = len(self)
        if count <= self._capacity:
            return
        last = self._heads.last
        oldest_kept = np.partition(last, count - self._capacity // 2)[count - self._capacity // 2]
        self._heads = self._heads.where((last >= written_through) | (last >= oldest_kept))
