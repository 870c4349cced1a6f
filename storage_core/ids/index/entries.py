"""Which rows get an entry in the sparse index.

    key    i window secondary primary address                  value  empty

An entry names a normal row: the first of its id in a window, and after it the next once N rows of
the id have come. Rows are looked at many blocks at a time, and of what is looked at together an
id gets one entry a window, at its first row there: to walk over the zones of a few more blocks
costs a read less than finer entries cost those who write.

Where most rows would be firsts (ids by the million) there are none: as many entries as rows
would cost what blocks are there to save, and zones skip such blocks as well. Their ids are
remembered all the same, and get entries once they come again and again.

What is remembered is of a bounded number of ids. One that was forgotten is taken for a first:
an entry too many costs a few bytes, one too few some time.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage_core.format.window import WindowScheme

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]

SLOTS_LEAST: Final = 2**10
SLOTS_MOST: Final = 2**16
# So few firsts are never too many.
FIRSTS_MANY: Final = 64
# Where ids take turns, all of them are among so many rows for each.
_ROWS_FOR_FIRSTS: Final = 4
# Multiplied with it, ids in a row fall far from each other.
_SCATTER: Final = np.uint32(2654435769)
_SPREAD: Final = 0x5BD1E995

_ENTRY: Final = np.dtype(
    [
        ("window", "<i8"),
        ("secondary", "<i4"),
        ("primary", "<i8"),
        ("address", "<i8"),
        ("is_first", "?"),
    ]
)
Entries = npt.NDArray[np.void]


def no_entries() -> Entries:
    """Return entries of which there are none."""
    return np.empty(0, dtype=_ENTRY)


class IndexedRows(NamedTuple):
    """What the index needs of rows in order of address; states None: all normal."""

    secondary: Int32s
    primary: Int64s
    address: Int64s
    states: States | None

    @property
    def normal(self) -> "IndexedRows":
        """The normal ones of them."""
        if self.states is None or not self.states.any():
            return self
        positions = np.flatnonzero(self.states == 0)
        return IndexedRows(
            self.secondary[positions], self.primary[positions], self.address[positions], None
        )


class WrittenRows(NamedTuple):
    """Rows of one batch that was written, and how many blocks they are."""

    rows: IndexedRows
    blocks: int


def normal_rows(parts: Sequence[IndexedRows]) -> IndexedRows:
    """Return the normal rows of several batches as one."""
    normal = [part.normal for part in parts]
    if len(normal) == 1:
        return normal[0]
    secondary, primary, address = (np.concatenate([part[at] for part in normal]) for at in range(3))
    return IndexedRows(secondary, primary, address, None)


class EntryChooser:
    """Chooses entries of rows in order of address. One thread at a time."""

    def __init__(self, scheme: WindowScheme, slots_most: int = SLOTS_MOST) -> None:
        """Remember nothing yet."""
        self._scheme = scheme
        self._slots_most = slots_most
        self._used = 0
        self._resize(min(SLOTS_LEAST, slots_most))

    def choose(self, rows: IndexedRows, spacing: int) -> Entries:
        """Return the entries of normal rows, in order of address."""
        if not len(rows.secondary):
            return no_entries()
        first, last = int(rows.primary.min()), int(rows.primary.max())
        window = self._scheme.of(first)
        if window == self._scheme.of(last):
            places, counts = _firsts(rows.secondary)
            windows = np.full(len(places), window)
        else:
            of_rows = self._scheme.of_many(rows.primary)
            places, counts = _firsts_by_window(of_rows, rows.secondary)
            windows = of_rows[places]
        return self._due(rows, places, windows, counts, spacing)

    def _due(
        self, rows: IndexedRows, places: Int64s, windows: Int64s, counts: Int64s, spacing: int
    ) -> Entries:
        ids = rows.secondary[places]
        slots = self._slots_of(ids)
        is_there = (self._ids[slots] == ids) & (self._since[slots] > 0)
        if self._grown_for(len(ids) - int(np.count_nonzero(is_there))):
            slots = self._slots_of(ids)
            is_there = (self._ids[slots] == ids) & (self._since[slots] > 0)
        is_known = is_there & (self._windows[slots] == windows)
        since = np.where(is_known, self._since[slots], 0)
        is_first = ~is_known
        if _is_most(int(np.count_nonzero(is_first)), len(rows.secondary)):
            is_due = is_known & (since >= spacing)
        else:
            is_due = is_first | (since >= spacing)
        self._used += int(np.count_nonzero(self._since[slots] == 0))
        self._ids[slots], self._windows[slots] = ids, windows
        self._since[slots] = np.where(is_due, counts, np.minimum(since + counts, 2**30))
        due = np.flatnonzero(is_due)
        due = due[np.argsort(places[due], kind="stable")]
        positions = places[due]
        entries = np.empty(len(due), dtype=_ENTRY)
        entries["window"], entries["secondary"] = windows[due], ids[due]
        entries["primary"], entries["address"] = rows.primary[positions], rows.address[positions]
        entries["is_first"] = is_first[due]
        return entries

    def _slots_of(self, ids: Int32s) -> npt.NDArray[np.intp]:
        """Return where each id is, or else a place for it: of two the one that is free."""
        scattered = ids.astype(np.uint32) * _SCATTER
        first = (scattered >> self._shift).astype(np.intp)
        scattered = (scattered ^ np.uint32(_SPREAD)) * _SCATTER
        second = (scattered >> self._shift).astype(np.intp)
        is_in_second = (self._ids[second] == ids) & (self._since[second] > 0)
        is_taken = (self._ids[first] != ids) & (self._since[first] > 0)
        goes_second = is_taken & (is_in_second | (self._since[second] == 0))
        return np.where(goes_second, second, first)

    def _resize(self, slots: int) -> None:
        self._shift = np.uint32(32 - (slots.bit_length() - 1))
        self._ids = np.zeros(slots, dtype=np.int32)
        self._windows = np.zeros(slots, dtype=np.int64)
        self._since = np.zeros(slots, dtype=np.int32)

    def _grown_for(self, more: int) -> bool:
        """Make room for so many more ids, unless there is, or no more may be had."""
        slots = len(self._ids)
        while 2 * (self._used + more) > slots < self._slots_most:
            slots = min(2 * slots, self._slots_most)
        if slots == len(self._ids):
            return False
        occupied = np.flatnonzero(self._since)
        ids, windows, since = self._ids[occupied], self._windows[occupied], self._since[occupied]
        self._resize(slots)
        slots_of = self._slots_of(ids)
        self._ids[slots_of], self._windows[slots_of], self._since[slots_of] = ids, windows, since
        self._used = int(np.count_nonzero(self._since))
        return True


def _is_most(firsts: int, rows: int) -> bool:
    return firsts > FIRSTS_MANY and 2 * firsts > rows


def _firsts(ids: Int32s) -> tuple[Int64s, Int64s]:
    """Return where each distinct id is first, and how often it is there."""
    least = int(ids.min())
    span = int(ids.max()) - least + 1
    if span > 8 * len(ids) + 1024:
        _, places, counts = np.unique(ids, return_index=True, return_counts=True)
        return places, counts
    offsets = np.subtract(ids, least, dtype=np.int64)
    counts = np.bincount(offsets, minlength=span)
    present = np.flatnonzero(counts)
    firsts = np.full(span, -1)
    # All rows are gone through only if the first few have not every id.
    for end in (min(_ROWS_FOR_FIRSTS * len(present), len(ids)), len(ids)):
        # Of repeated indices numpy keeps the last, which is the first from behind.
        firsts[offsets[:end][::-1]] = np.arange(end - 1, -1, -1)
        if firsts[present].min() >= 0:
            break
    return firsts[present], counts[present]


def _firsts_by_window(windows: Int64s, ids: Int32s) -> tuple[Int64s, Int64s]:
    order = np.lexsort((ids, windows))
    is_new = np.ones(len(ids), dtype=np.bool_)
    is_new[1:] = (windows[order[1:]] != windows[order[:-1]]) | (ids[order[1:]] != ids[order[:-1]])
    starts = np.flatnonzero(is_new)
    return order[starts], np.diff(np.append(starts, len(ids)))
