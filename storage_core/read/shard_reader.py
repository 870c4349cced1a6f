"""What answers the reads of one shard, and what a shard reports of itself."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Protocol, Self

import pyarrow as pa

from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange, ShardState
from storage_core.read.request import ReadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts(ShardState):
    """What a shard reports of itself: its state, as of the last batch written, committed or not.

    Attributes:
        committed: The exclusive end of the rows that reads return; read before the state.
    """

    committed: int

    @property
    def skipped(self) -> list[AddressRange]:
        """The committed ranges that the source no longer had."""
        return [gap for gap in self.passed if gap.end <= self.committed]

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
        values = {field.name: getattr(state, field.name) for field in fields(ShardState)}
        return cls(**values, committed=committed)


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


class FollowedShard(ShardReader, Protocol):
    """What answers a reader: a shard followed by its files, or one that a server is asked about."""

    def refresh(self) -> int:
        """Follow the writer to about now and return committed."""
        ...

    def expired(self, start: int, end: int, since: int) -> list[tuple[int, int]]:
        """Return the ranges whose blocks expired behind one that has not, after a generation."""
        ...

    def close(self) -> None:
        """Close everything."""
        ...
