"""Future-dated records that outlive their blocks.

The log is cut by when rows came, as windows tell, and a future-dated record is in none: a clock in
2100 must not keep what came beside it. What it says of itself is not yet over then, so its
ordered copy stays until its own window goes, and answers in the block's place: in order of
arrival, and as the newest of its id. A replay, which is of the log, begins above it.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.keys import encode_late_keys
from storage_core.format.late_rows import LateRows, decode_late_rows
from storage_core.read.ahead_places import RowPlaces, ahead_between
from storage_core.read.columns import late_columns
from storage_core.read.row_filter import RowFilter
from storage_core.read.snapshot import ShardSnapshot

_ROWS_AT_ONCE: Final = 1024

Mask = npt.NDArray[np.bool_]


def without_blocks(snapshot: ShardSnapshot, places: RowPlaces) -> Mask:
    """Tell of each place whether its block has expired."""
    gone: Mask = places.address < snapshot.state.start
    begin, end = snapshot.state.start, snapshot.state.expired_end
    near = np.flatnonzero((places.address >= begin) & (places.address < end))
    for position in near.tolist():
        address = int(places.address[position])
        gone[position] = any(True for _ in snapshot.expired(address, address + 1))
    return gone


def copies_at(snapshot: ShardSnapshot, places: RowPlaces) -> LateRows | None:
    """Return the ordered copies of records at these places, in their order; None if none."""
    windows = snapshot.scheme.of_many(places.primary)
    keys = encode_late_keys(windows, places.ids, places.primary, places.address)
    copies = {key: value for key in keys if (value := snapshot.value_at(key)) is not None}
    return decode_late_rows([*copies], [*copies.values()]) if copies else None


def rows_at(
    snapshot: ShardSnapshot, wanted: RowFilter, places: RowPlaces
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted ones of the records at these places, as one batch."""
    late = copies_at(snapshot, places)
    if late is None:
        return
    chosen = wanted.choose_late(late)
    if len(chosen):
        yield late_columns(late, snapshot.shard, wanted.columns, chosen)


class AheadRows:
    """The wanted future-dated records without blocks, taken in order of arrival."""

    def __init__(self, snapshot: ShardSnapshot, wanted: RowFilter) -> None:
        """Look for them, if the shard has had any, and has lost blocks."""
        self._snapshot = snapshot
        self._wanted = wanted
        state = snapshot.state
        self._places = RowPlaces.of([])
        if state.tail.counters.ahead and max(state.start, state.expired_end) > state.born:
            places = ahead_between(snapshot, wanted.ids, wanted.start, wanted.end)
            places = places.where(without_blocks(snapshot, places))
            self._places = places.where(np.argsort(places.address))

    def before(self, address: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield those that came before an address and were not taken yet, as a scan does."""
        end = int(self._places.address.searchsorted(address))
        taken, self._places = self._places.where(slice(end)), self._places.where(slice(end, None))
        for first in range(0, len(taken), _ROWS_AT_ONCE):
            places = taken.where(slice(first, first + _ROWS_AT_ONCE))
            for rows in rows_at(self._snapshot, self._wanted, places):
                yield rows, int(places.address[-1]) + 1
