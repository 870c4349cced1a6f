"""A shard as opening hands it over: what it is told about itself, and what recovery has opened."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from storage_core.catalog.stream_meta import StreamMeta
from storage_core.engine.commit_marker import MarkerWriter
from storage_core.engine.environment import Environment
from storage_core.engine.key_value import KeyValueStore
from storage_core.engine.writer_lock import WriterLock
from storage_core.errors import ShardlogError
from storage_core.format.block import BlockPlace
from storage_core.format.shard_state import ShardState
from storage_core.ids.heads.shard_heads import ShardHeads
from storage_core.write.ledger import IsNeeded


@dataclass(frozen=True, slots=True)
class ShardContext:
    """What a shard is told about itself.

    `name_features` makes programs that do not know some features refuse the stream, durably.
    """

    number: int
    directory: Path
    meta: StreamMeta
    lineage: bytes
    environment: Environment
    is_needed: IsNeeded
    name_features: Callable[[Collection[str]], None]
    born: int = 0

    @property
    def place(self) -> BlockPlace:
        """Where its blocks belong."""
        return BlockPlace(self.lineage, self.number)


@dataclass(frozen=True, slots=True)
class OpenedShard:
    """What recovery hands over."""

    lock: WriterLock
    store: KeyValueStore
    marker: MarkerWriter
    state: ShardState
    publishable: int
    heads: ShardHeads

    def close(self, *, is_poisoned: bool) -> None:
        """Close what is open; a second run closes what an interrupted one has left."""
        try:
            self.store.close()
        except ShardlogError:
            # A poisoned store reports its old failure again; the caller was told.
            if not is_poisoned:
                raise
        finally:
            try:
                self.marker.close()
            finally:
                self.lock.release()
