"""Many bodies read side by side: one step of all of them is a few calls of numpy.

A step takes where each body is read (`places`) and which row each is (`rows`), and returns what it
read and the places behind it. A body that cannot be read is noted with its reason once; from then
on it is read behind the end of all, where there are only zeros: no length, no item, branch 0. So
nothing that a bad body claims is ever allocated, and its neighbours do not notice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_MORE: Final = 0x80
_SEVEN: Final = np.uint64(7)
_ONE: Final = np.uint64(1)
# The tenth byte of a number holds its highest bit.
_LAST_SHIFT: Final = 63


@dataclass(frozen=True, slots=True)
class Limits:
    """What a body may claim before it counts as corrupt.

    Attributes:
        items: Items of all its arrays and maps together; never more than it has bytes, and
            `EMPTY_ITEMS_MAX` that take none.
        nesting: Types in each other, as of a record that holds itself.
    """

    items: int = 2**20
    nesting: int = 64


# Items of a body beyond its bytes: an item takes a byte, but for nulls and the like.
EMPTY_ITEMS_MAX: Final = 256


def too_many(limits: Limits) -> str:
    """Return why an array or map is refused."""
    return f"more than {limits.items} items, or than its bytes can be"


class Cursor:
    """The bytes of some bodies, and which of them turned out corrupt."""

    def __init__(self, data: Bytes, begins: Numbers, ends: Numbers, limits: Limits) -> None:
        """Read `data`, of which the last byte is a zero that is no body's."""
        self.data, self.ends, self.limits = data, ends, limits
        self.view = data.data
        self.items_left = np.minimum(ends - begins + EMPTY_ITEMS_MAX, limits.items)
        self.is_bad = np.zeros(len(ends), np.bool_)
        self.reasons: dict[int, str] = {}
        self._behind = len(data) - 1

    def refuse(
        self, which: npt.NDArray[np.bool_], rows: Numbers, places: Numbers, reason: str
    ) -> bool:
        """Note the rows that a mask marks, and move them behind the end. True if there are any."""
        if not which.any():
            return False
        for row in rows[which].tolist():
            if not self.is_bad[row]:
                self.reasons[row] = reason
        self.is_bad[rows[which]] = True
        places[which] = self._behind
        return True

    def are_all_bad(self, rows: Numbers) -> bool:
        """Tell whether nothing is left to read of any of some rows."""
        return bool(self.reasons) and bool(self.is_bad[rows].all())

    def hold(self, rows: Numbers, places: Numbers) -> None:
        """Note the rows that were read over their end."""
        over = places > self.ends[rows]
        if over.any():
            self.refuse(over & ~self.is_bad[rows], rows, places, "the body ends too early")

    def bytes_at(self, places: Numbers) -> Bytes:
        """Return a byte of each place; zeros behind the end."""
        values: Bytes = self.data.take(places, mode="clip")
        return values

    def longs(self, places: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Read a zigzag number of each."""
        first = self.bytes_at(places)
        places = places + 1
        numbers = (first & 0x7F).astype(np.uint64)
        more = first >= _MORE
        if more.any():
            self._longer(numbers, places, rows, more)
        self.hold(rows, places)
        values = (numbers >> _ONE).view(np.int64)
        values ^= -(numbers & _ONE).view(np.int64)
        return values, places

    def _longer(
        self,
        numbers: npt.NDArray[np.uint64],
        places: Numbers,
        rows: Numbers,
        more: npt.NDArray[np.bool_],
    ) -> None:
        """Read what is behind the first byte, of those that have more."""
        positions, shift = np.flatnonzero(more), 7
        while len(positions):
            byte = self.bytes_at(places[positions])
            places[positions] += 1
            if shift == _LAST_SHIFT:
                # One bit is left.
                self._refuse_at(byte > 1, positions, rows, places, "a number of more than 64 bits")
                byte &= 1
            numbers[positions] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            if shift == _LAST_SHIFT:
                return
            shift += 7
            positions = positions[byte >= _MORE]

    def _refuse_at(
        self,
        bad: npt.NDArray[np.bool_],
        at: Numbers,
        rows: Numbers,
        places: Numbers,
        reason: str,
    ) -> None:
        mask = np.zeros(len(rows), np.bool_)
        mask[at[bad]] = True
        self.refuse(mask, rows, places, reason)

    def ints(self, places: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Read a zigzag number of 32 bits of each."""
        values, places = self.longs(places, rows)
        wide = values != values.astype(np.int32)
        if self.refuse(wide, rows, places, "an int of more than 32 bits"):
            values[wide] = 0
        return values, places

    def spans(self, places: Numbers, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Read the length of bytes of each; return where they start, lengths, and what follows."""
        sizes, starts = self.longs(places, rows)
        # Compared this way round: a sum might overflow.
        wrong = (sizes < 0) | (sizes > self.ends[rows] - starts)
        self.refuse(wrong & ~self.is_bad[rows], rows, starts, "bytes beyond the body's end")
        sizes[self.is_bad[rows]] = 0
        return starts, sizes, starts + sizes

    def gathered(self, starts: Numbers, sizes: Numbers) -> tuple[npt.NDArray[np.int32], Bytes]:
        """Return the ends of some bytes, with 0 before them, and these one after the other."""
        ends = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=ends[1:])
        places = np.arange(ends[-1])
        places += np.repeat(starts - ends[:-1], sizes)
        return ends.astype(np.int32), self.bytes_at(places)

    def of_size(self, places: Numbers, rows: Numbers, size: int) -> tuple[Bytes, Numbers]:
        """Read so many bytes of each, as a matrix."""
        behind = places + size
        self.hold(rows, behind)
        return self.data.take(places[:, None] + np.arange(size), mode="clip"), behind

    def choices(
        self, places: Numbers, rows: Numbers, count: int, what: str
    ) -> tuple[Numbers, Numbers]:
        """Read a number below `count` of each: a union's branch, an enum's symbol."""
        values, places = self.longs(places, rows)
        wrong = (values < 0) | (values >= count)
        self.refuse(wrong & ~self.is_bad[rows], rows, places, f"{what} that is not there")
        values[wrong] = 0
        return values, places


def each_branch(
    branches: Numbers,
    count: int,
    places: Numbers,
    rows: Numbers,
    step: Callable[[int, Numbers, Numbers, Numbers], Numbers],
) -> Numbers:
    """Take a step of each branch with those that chose it; return the places behind."""
    if len(branches) and (branches == branches[0]).all():
        return step(int(branches[0]), np.arange(len(rows)), places, rows)
    behind = places.copy()
    for branch in range(count):
        positions = np.flatnonzero(branches == branch)
        if len(positions):
            behind[positions] = step(branch, positions, places[positions], rows[positions])
    return behind
