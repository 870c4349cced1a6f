"""How far behind a partition is in seconds, out of how its end moved.

Where a partition ended at what time is remembered as often as somebody asks; a shard that stands at
an offset is as old as the moment at which the partition ended there, between two such moments in
proportion. One that began further behind is taken back at the rate at which the end has moved
since; until it has, nothing is known.
"""

from collections import deque
from collections.abc import Collection
from itertools import pairwise
from typing import Final

from connectors.kafka import Partition

_MOMENTS_MAX: Final = 60


class LagSeconds:
    """Remembers where partitions ended. Belongs to one thread."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._moments: dict[Partition, deque[tuple[float, int]]] = {}

    def age_s(self, partition: Partition, next_: int, end: int, now_s: float) -> float | None:
        """Take note of where a partition ends, and return how old `next_` is, if that is known."""
        moments = self._moments.setdefault(partition, deque(maxlen=_MOMENTS_MAX))
        if moments and (end < moments[-1][1] or now_s < moments[-1][0]):
            # A log that was cut.
            moments.clear()
        if len(moments) > 1 and moments[-2][1] == moments[-1][1] == end:
            # It stood still meanwhile: only when that began and when it ended matters.
            moments[-1] = (now_s, end)
        else:
            moments.append((now_s, end))
        if next_ >= end:
            return 0.0
        return _age_of(moments, next_, now_s)

    def keep(self, partitions: Collection[Partition]) -> None:
        """Forget all but these."""
        for partition in self._moments.keys() - set(partitions):
            del self._moments[partition]


def _age_of(moments: Collection[tuple[float, int]], offset: int, now_s: float) -> float | None:
    first_s, first_end = next(iter(moments))
    for (before_s, before), (after_s, after) in pairwise(moments):
        if before <= offset < after:
            return now_s - before_s - (after_s - before_s) * (offset - before) / (after - before)
    *_, (last_s, last_end) = moments
    if last_end == first_end:
        return None
    rate = (last_end - first_end) / (last_s - first_s)
    return now_s - first_s + (first_end - offset) / rate
