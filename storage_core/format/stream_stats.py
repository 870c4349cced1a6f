"""What a stream has counted, as its callers see it."""

from collections.abc import Iterable
from dataclasses import dataclass

from storage_core.format.shard_state import Counters


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
    sums = Counters()
    for counters in shards:
        sums = sums.plus(counters)
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
