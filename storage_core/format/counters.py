"""What a shard counts, and what callers see of it.

A shard keeps its counters in the order of `Counters`, with every batch (shard_state.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add, sub
from typing import NamedTuple


class Counters(NamedTuple):
    """What a shard has counted since its birth.

    `strays` are rows whose secondary routes to another shard: where there are none, a read
    by id asks one shard only. `passed_over` are addresses, not rows.
    """

    records: int = 0
    late_arrivals: int = 0
    jitter_absorbed: int = 0
    ahead: int = 0
    expired: int = 0
    duplicates: int = 0
    blocks: int = 0
    payload_bytes: int = 0
    strays: int = 0
    dead_letters: int = 0
    passed_over: int = 0

    def plus(self, other: "Counters") -> "Counters":
        """Return the sums."""
        return Counters(*map(add, self, other))

    def minus(self, other: "Counters") -> "Counters":
        """Return the differences."""
        return Counters(*map(sub, self, other))


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What the shards looked at have counted since their birth.

    `dead_letters` are those ever written, also those cleared since; `passed_over` are
    addresses that the source no longer had.
    """

    records: int = 0
    late_arrivals: int = 0
    jitter_absorbed: int = 0
    expired: int = 0
    ahead: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    passed_over: int = 0
    index_entries: int = 0
    index_dropped: int = 0
    scale_up: int = 0
    scale_down: int = 0
    spacing: int = 0
    index_queue: int = 0


def stats_of(shards: Iterable[Counters]) -> StreamStats:
    """Return the sums over shards."""
    sums = reduce(Counters.plus, shards, Counters())
    return StreamStats(
        records=sums.records,
        late_arrivals=sums.late_arrivals,
        jitter_absorbed=sums.jitter_absorbed,
        expired=sums.expired,
        ahead=sums.ahead,
        duplicates=sums.duplicates,
        dead_letters=sums.dead_letters,
        passed_over=sums.passed_over,
    )
