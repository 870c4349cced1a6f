"""A cursor over many Avro bodies at once: each step reads one value of all of them, by numpy.

A step takes the offset of each value (`offsets`) and its row (`rows`), and returns the values and
the offsets after them. The first fault of a row is its reason. From then on its offset is past the
end of the data, where all bytes are zero: length 0, no items, branch 0. So nothing is allocated for
a corrupt body, and other rows are not affected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_MORE: Final = 0x80
_LOWEST_BIT: Final = np.uint64(1)
# The tenth byte of a number holds its highest bit.
_LAST_SHIFT: Final = 63


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds beyond which a body counts as corrupt.

    Attributes:
        items: Items of all its arrays and maps together; never more than it has bytes, and
            `EMPTY_ITEMS_MAX` that take none.
        nesting: Depth of values inside of values, as in a recursive record.
    """

    items: int = 2**20
    nesting: int = 64


# Items of a body in excess of its bytes: most items take a byte, nulls and the like take none.
EMPTY_ITEMS_MAX: Final = 256


def too_many(limits: Limits) -> str:
    """Return the reason to refuse an array or map."""
    return f"more than {limits.items} items, or more than its bytes can hold"


class Cursor:
    """The bytes of some bodies, and the rows that turned out corrupt."""

    def __init__(self, data: Bytes, begins: Numbers, ends: Numbers, limits: Limits) -> None:
        """Read `data`, whose last byte is a zero after all bodies."""
        self.data, self.ends, self.limits = data, ends, limits
        self.view = data.data
        self.items_left = np.minimum(ends - begins + EMPTY_ITEMS_MAX, limits.items)
        self.is_bad = np.zeros(len(ends), np.bool_)
        self.reasons: dict[int, str] = {}
        self._past_end = len(data) - 1

    def refuse(
        self, mask: npt.NDArray[np.bool_], rows: Numbers, offsets: Numbers, reason: str
    ) -> bool:
        """Mark rows as corrupt and move them past the end. True if there are any."""
        if not mask.any():
            return False
        for row in rows[mask].tolist():
            if not self.is_bad[row]:
                self.reasons[row] = reason
        self.is_bad[rows[mask]] = True
        offsets[mask] = self._past_end
        return True

    def are_all_bad(self, rows: Numbers) -> bool:
        """Tell whether all of some rows are corrupt."""
        return bool(self.reasons) and bool(self.is_bad[rows].all())

    def check_ends(self, rows: Numbers, offsets: Numbers) -> None:
        """Mark the rows that were read past their end."""
        over = offsets > self.ends[rows]
        if over.any():
            self.refuse(over & ~self.is_bad[rows], rows, offsets, "the body is truncated")

    def bytes_at(self, offsets: Numbers) -> Bytes:
        """Return the byte at each offset; zero past the end."""
        values: Bytes = self.data.take(offsets, mode="clip")
        return values

    def longs(self, offsets: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Read a long of each row."""
        first = self.bytes_at(offsets)
        offsets = offsets + 1
        numbers = (first & 0x7F).astype(np.uint64)
        more = first >= _MORE
        if more.any():
            self._longer(numbers, offsets, rows, more)
        self.check_ends(rows, offsets)
        values = (numbers >> _LOWEST_BIT).view(np.int64)
        values ^= -(numbers & _LOWEST_BIT).view(np.int64)
        return values, offsets

    def _longer(
        self,
        numbers: npt.NDArray[np.uint64],
        offsets: Numbers,
        rows: Numbers,
        more: npt.NDArray[np.bool_],
    ) -> None:
        """Read the bytes after the first, of the varints that have more."""
        positions, shift = np.flatnonzero(more), 7
        while len(positions):
            byte = self.bytes_at(offsets[positions])
            offsets[positions] += 1
            if shift == _LAST_SHIFT:
                # One bit is left.
                self._refuse_at(byte > 1, positions, rows, offsets, "a varint of more than 64 bits")
                byte &= 1
            numbers[positions] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            if shift == _LAST_SHIFT:
                return
            shift += 7
            positions = positions[byte >= _MORE]

    def _refuse_at(
        self,
        wrong: npt.NDArray[np.bool_],
        positions: Numbers,
        rows: Numbers,
        offsets: Numbers,
        reason: str,
    ) -> None:
        mask = np.zeros(len(rows), np.bool_)
        mask[positions[wrong]] = True
        self.refuse(mask, rows, offsets, reason)

    def ints(self, offsets: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Read an int of each row."""
        values, offsets = self.longs(offsets, rows)
        wide = values != values.astype(np.int32)
        if self.refuse(wide, rows, offsets, "an int of more than 32 bits"):
            values[wide] = 0
        return values, offsets

    def spans(self, offsets: Numbers, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Read the length of each bytes or string; return starts, lengths and the offsets after."""
        sizes, starts = self.longs(offsets, rows)
        # Compared this way round: a sum might overflow.
        wrong = (sizes < 0) | (sizes > self.ends[rows] - starts)
        self.refuse(wrong & ~self.is_bad[rows], rows, starts, "a length beyond the end of the body")
        sizes[self.is_bad[rows]] = 0
        return starts, sizes, starts + sizes

    def gather(self, starts: Numbers, sizes: Numbers) -> tuple[npt.NDArray[np.int32], Bytes]:
        """Return Arrow offsets and the bytes of values, concatenated."""
        ends = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=ends[1:])
        offsets = np.arange(ends[-1])
        offsets += np.repeat(starts - ends[:-1], sizes)
        return ends.astype(np.int32), self.bytes_at(offsets)

    def fixed(self, offsets: Numbers, rows: Numbers, size: int) -> tuple[Bytes, Numbers]:
        """Read `size` bytes of each row, as a matrix."""
        after = offsets + size
        self.check_ends(rows, after)
        return self.data.take(offsets[:, None] + np.arange(size), mode="clip"), after

    def indices(
        self, offsets: Numbers, rows: Numbers, count: int, label: str
    ) -> tuple[Numbers, Numbers]:
        """Read a number below `count` of each row: a union branch or enum symbol."""
        values, offsets = self.longs(offsets, rows)
        wrong = (values < 0) | (values >= count)
        self.refuse(wrong & ~self.is_bad[rows], rows, offsets, f"{label} out of range")
        values[wrong] = 0
        return values, offsets


def for_each_branch(
    branches: Numbers,
    count: int,
    offsets: Numbers,
    rows: Numbers,
    step: Callable[[int, Numbers, Numbers, Numbers], Numbers],
) -> Numbers:
    """Take a step for each branch with the rows that have it; return the offsets after."""
    if len(branches) and (branches == branches[0]).all():
        return step(int(branches[0]), np.arange(len(rows)), offsets, rows)
    after = offsets.copy()
    for branch in range(count):
        positions = np.flatnonzero(branches == branch)
        if len(positions):
            after[positions] = step(branch, positions, offsets[positions], rows[positions])
    return after
