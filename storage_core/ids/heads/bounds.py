"""Bounds of the largest primaries that ids have had, so that a row can be judged without its head.

A row that is not below any row of its id before it is normal and moves the head, wherever the head
was. So an upper bound of the head is enough to judge it, and a bound that several ids share is one
too: there are so many bounds at most, each of the ids that fall on it. They only ever rise, and
one that is too high costs no more than a look at the disk.

One thread at a time (the shard's append lock).
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import INT64_MIN
from storage_core.ids.heads.grouping import Grouping, Int32s, Int64s

BOUNDS_MOST: Final = 2**18
# Knuth's: neighbouring ids fall on bounds far apart.
_SCATTER: Final = np.uint32(2654435769)


class PrimaryBounds:
    """Upper bounds of the heads of all ids."""

    def __init__(self, most: int = INT64_MIN, bounds_most: int = BOUNDS_MOST) -> None:
        """Begin with one bound for all ids: no head's primary is above `most`."""
        self.most = most
        self._bounds_most = bounds_most
        self._bounds = np.array([most], dtype=np.int64)
        self._asked_count = 0

    def __len__(self) -> int:
        return len(self._bounds)

    def raise_to(self, ids: Int32s, primaries: Int64s) -> None:
        """Take over what became the largest primaries of distinct ids."""
        if not len(ids):
            return
        self.most = max(self.most, int(primaries.max()))
        if len(self._bounds) == 1:
            self._bounds[0] = self.most
        else:
            np.maximum.at(self._bounds, self._places(ids), primaries)

    def undecided(
        self, groups: Grouping, primaries: Int64s, least: int, largest: int
    ) -> npt.NDArray[np.bool_]:
        """Tell of which ids the heads are needed to judge these rows, in order of arrival.

        Of any other the first row lies in [least, largest], the primaries that may become normal,
        and is at or above its bound: it is normal, and what follows is judged by it.
        """
        first, last = int(primaries[0]), int(primaries[-1])
        if (
            first >= max(self.most, least)
            and last <= largest
            and (primaries[1:] >= primaries[:-1]).all()
        ):
            return np.zeros(len(groups.ids), dtype=np.bool_)
        firsts = np.empty(len(groups.ids), dtype=np.int64)
        # Of repeated indices numpy keeps the last, which is the first from behind.
        firsts[groups.codes[::-1]] = primaries[::-1]
        bounds = np.maximum(self._bounds[self._places(groups.ids)], least)
        return (firsts < bounds) | (firsts > largest)

    def note_asked(self, count: int) -> None:
        """Note that the disk was asked for so many heads; make the bounds as fine as that needs."""
        self._asked_count += count
        while len(self._bounds) < min(self._asked_count, self._bounds_most):
            # Each is followed by its like, so that both halves of its ids keep it.
            self._bounds = np.repeat(self._bounds, 2)

    def _places(self, ids: Int32s) -> npt.NDArray[np.intp]:
        scattered = (ids.view(np.uint32) * _SCATTER).astype(np.uint64)
        return (scattered * np.uint64(len(self._bounds)) >> np.uint64(32)).astype(np.intp)
