"""What answers the reads of one shard, and what a shard reports of itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

import pyarrow as pa

from storage_core.format.counters import Counters, IndexCounts
from storage_core.format.keys import INT64_MIN
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import ShardState
from storage_core.read.request import ReadRequest

_NO_INDEX: Final = IndexCounts()


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """What a shard reports of itself, as of one snapshot.

    Attributes:
        committed: The exclusive end of the rows that reads return.
        start: The first address that is still kept.
        lost: The ranges that were acknowledged and are gone.
        passed: The committed ranges that the source no longer had.
        source: Where the source of the rows stands, as of the last batch written.
        counters: What was counted, as of the last batch written, committed or not.
        floor: The primary below which everything has expired.
        expired_end: The exclusive end of the last blocks that expired behind one that has not.
        index: What the sparse index has counted; a reader's as of the last entries written.
        generation: Raised by each open for writing and by each expiry that takes something away.
        parts: How many parts have got a number.
        sealed: The address below which rows are in parts.
        trimmed: The address below which they are there alone.
        dead_letters_dropped: How many dead letters went without having been forwarded.
    """

    committed: int
    start: int
    lost: Sequence[tuple[int, int]]
    passed: Sequence[tuple[int, int]]
    source: Mapping[str, object] | None
    counters: Counters
    floor: int = INT64_MIN
    expired_end: int = 0
    index: IndexCounts = _NO_INDEX
    generation: int = 0
    parts: int = 0
    sealed: int = 0
    trimmed: int = 0
    dead_letters_dropped: int = 0

    @property
    def untrimmed(self) -> int:
        """How many sealed addresses have blocks too."""
        return max(0, min(self.sealed, self.committed) - max(self.trimmed, self.start))

    @property
    def unsealed(self) -> int:
        """How many committed addresses are in no part yet."""
        return max(0, self.committed - max(self.sealed, self.start))

    @classmethod
    def of(cls, state: ShardState, committed: int) -> Self:
        """Return the facts of a shard in one state; committed was read before it."""
        return cls(
            committed,
            state.start,
            [(lost.start, lost.end) for lost in state.lost],
            [(gap.start, gap.end) for gap in state.passed if gap.end <= committed],
            state.source,
            state.tail.counters,
            state.floor,
            state.expired_end,
            state.index,
            state.generation,
            state.parts,
            state.sealed,
            state.trimmed,
            state.dead_letters_dropped,
        )


class ShardReader(Protocol):
    """What answers a read: a writer's shard, a follower in another process, later a service."""

    def committed(self) -> int:
        """Return the exclusive end of the rows that reads return."""
        ...

    def state(self) -> ShardFacts:
        """Return what the shard reports of itself now."""
        ...

    def dead_letters(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by address."""
        ...

    def schemas(self, registry_id: int | None = None) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have or had, or those of an id, as they came."""
        ...

    def parts(self) -> ShardParts:
        """Return the parts of the shard, and up to where its rows are in them."""
        ...

    def scan(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows asked for; never fewer in silence, never one not committed."""
        ...
