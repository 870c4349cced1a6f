"""How much of the backlog a batch takes, as Kafka's source decides it. Pure but for one clock.

A limit is shared out in proportion to each shard's backlog: limit * size / total, rounded down,
but up where it is below one, so that a small shard is not starved beside a large one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from storage_core import Clock, SystemClock

S = TypeVar("S")


def share_out(limit: int, begins: Mapping[S, int], ends: Mapping[S, int]) -> dict[S, int]:
    """Return how far each shard is read when a batch takes about `limit` offsets in all."""
    sizes = {shard: end - begins[shard] for shard, end in ends.items() if end > begins[shard]}
    total = sum(sizes.values())
    reached = dict(ends)
    for shard, size in sizes.items():
        taken = max(1, limit * size // total)
        reached[shard] = min(ends[shard], begins[shard] + taken)
    return reached


@dataclass(slots=True)
class BatchDelay:
    """Holds a batch back until there is enough for it, or it was held back long enough.

    The first batch of a run is never held back.
    """

    offsets_min: int
    delay_max: timedelta
    clock: Clock = field(default_factory=SystemClock)
    _let_through_s: float | None = None

    def holds_back(self, backlog: int) -> bool:
        """Tell whether to wait for more."""
        now_s = self.clock.monotonic_s()
        last = self._let_through_s
        is_due = last is None or now_s - last >= self.delay_max.total_seconds()
        if not is_due and backlog < self.offsets_min:
            return True
        self._let_through_s = now_s
        return False
