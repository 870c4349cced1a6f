"""How values are spread: counts by fixed bounds, as Prometheus takes them.

Belongs to one thread; others see copies.
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class Histogram:
    """Counts values up to each bound, and above the last; and sums them."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count none; `bounds` ascend, and each counts for the values up to it."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def note(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def note_many(self, values: npt.NDArray[np.float64]) -> None:
        """Count values; many at once cost as little as few where they lie close together."""
        if not len(values):
            return
        least, largest = (bisect_left(self.bounds, value) for value in (values.min(), values.max()))
        if least == largest:
            self.counts[least] += len(values)
        else:
            buckets = np.searchsorted(self.bounds, values, side="left")
            for bucket, count in enumerate(np.bincount(buckets).tolist()):
                self.counts[bucket] += count
        self.sum += float(values.sum())

    def copy(self) -> "Histogram":
        """Return one that others may keep."""
        made = Histogram(self.bounds)
        made.counts, made.sum = list(self.counts), self.sum
        return made
