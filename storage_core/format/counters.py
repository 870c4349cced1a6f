"""What a shard counts, and what callers see of it.

A shard keeps its counters in the order of `Counters`, with every batch (shard_state.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import add, sub
from typing import Final, NamedTuple


class Counters(NamedTuple):
    """What a shard has counted since its birth.

    `strays` are rows whose secondary routes to another shard: where there are none, a read
    by id asks one shard only. `skipped` are addresses, not rows.
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
    skipped: int = 0
    dead_letters_cleared: int = 0

    def plus(self, other: "Counters") -> "Counters":
        """Return the sums."""
        return Counters(*map(add, self, other))

    def minus(self, other: "Counters") -> "Counters":
        """Return the differences."""
        return Counters(*map(sub, self, other))


class ClearedDeadLetters(NamedTuple):
    """How many dead letters of a shard were cleared otherwise than by being forwarded.

    Attributes:
        dropped: The oldest, which a shard had no room for.
        retried: Those that became rows after all.
        discarded: Those that somebody had no use for.
    """

    dropped: int = 0
    retried: int = 0
    discarded: int = 0

    def plus(self, other: "ClearedDeadLetters") -> "ClearedDeadLetters":
        """Return the sums."""
        return ClearedDeadLetters(*map(add, self, other))


NO_CLEARED_DEAD_LETTERS: Final = ClearedDeadLetters()


class IndexCounts(NamedTuple):
    """What the sparse index of a shard has counted since the shard's birth.

    Attributes:
        entries: Entries that were written.
        dropped: Entries that were not, since too many waited.
        scale_up: How often the spacing was doubled.
        scale_down: How often it was halved.
        spacing: Of an id so many rows lie between two entries; 0 where none was written yet.
        queue: Entries that wait to be written; in the writer's memory only.
    """

    entries: int = 0
    dropped: int = 0
    scale_up: int = 0
    scale_down: int = 0
    spacing: int = 0
    queue: int = 0

    def plus(self, other: "IndexCounts") -> "IndexCounts":
        """Return the sums, and the larger spacing."""
        return IndexCounts(*map(add, self, other))._replace(
            spacing=max(self.spacing, other.spacing)
        )


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What the shards looked at have counted since their birth.

    `dead_letters` are those ever written, `dead_letters_cleared` those of them that are gone
    since: dropped for want of room, retried and stored as rows, discarded, or else forwarded.
    `skipped` are addresses that the source no longer had. Of the index `spacing` is the
    largest, and `index_queue` what waits in a writer's memory.
    """

    records: int = 0
    late_arrivals: int = 0
    jitter_absorbed: int = 0
    expired: int = 0
    ahead: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    skipped: int = 0
    index_entries: int = 0
    index_dropped: int = 0
    scale_up: int = 0
    scale_down: int = 0
    spacing: int = 0
    index_queue: int = 0
    dead_letters_cleared: int = 0
    dead_letters_dropped: int = 0
    dead_letters_retried: int = 0
    dead_letters_discarded: int = 0

    @property
    def dead_letters_waiting(self) -> int:
        """Dead dead letters that are kept in the store."""
        return self.dead_letters - self.dead_letters_cleared

    @property
    def dead_letters_forwarded(self) -> int:
        """Dead dead letters that were published, and are not kept any more."""
        others = self.dead_letters_dropped + self.dead_letters_retried + self.dead_letters_discarded
        return self.dead_letters_cleared - others


def stats_of(shards: Iterable[tuple[Counters, IndexCounts, ClearedDeadLetters]]) -> StreamStats:
    """Return the sums over shards."""
    sums, index, cleared = Counters(), IndexCounts(), NO_CLEARED_DEAD_LETTERS
    for counters, of_index, of_dead_letters in shards:
        sums, index = sums.plus(counters), index.plus(of_index)
        cleared = cleared.plus(of_dead_letters)
    return StreamStats(
        records=sums.records,
        late_arrivals=sums.late_arrivals,
        jitter_absorbed=sums.jitter_absorbed,
        expired=sums.expired,
        ahead=sums.ahead,
        duplicates=sums.duplicates,
        dead_letters=sums.dead_letters,
        dead_letters_cleared=sums.dead_letters_cleared,
        dead_letters_dropped=cleared.dropped,
        dead_letters_retried=cleared.retried,
        dead_letters_discarded=cleared.discarded,
        skipped=sums.skipped,
        index_entries=index.entries,
        index_dropped=index.dropped,
        scale_up=index.scale_up,
        scale_down=index.scale_down,
        spacing=index.spacing,
        index_queue=index.queue,
    )
