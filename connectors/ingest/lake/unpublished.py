"""What of the worker's shards is not published, and how long the oldest of it has waited.

Up to where a shard is published the table says, with each publish. Until it was heard once, a note
of whoever published last says it (storage_core/lake/publishing/notes.py); without one, what was
sealed when the shard was opened counts as published. Belongs to the worker's thread.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from connectors.ingest.status.worker_state import LakeState
from connectors.kafka import Partition
from storage_core import Clock, ShardlogError, Stream
from storage_core.lake import LakeNotes

_NS_A_MS = 10**6


@dataclass(slots=True)
class _Shard:
    """How far a shard is published, as far as is known.

    Attributes:
        begin: What lies at or above it is not published.
        is_certain: Whether a table or a note has said so.
        first_ms: When the first row there was committed; None where none was seen yet.
    """

    begin: int
    is_certain: bool
    first_ms: int | None = None


class UnpublishedRows:
    """How far each shard is published."""

    def __init__(self, notes: LakeNotes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock
        self._shards: dict[Partition, _Shard] = {}

    def published(self, shard: Partition, end: int) -> None:
        """Take note that a shard is published up to an address."""
        before = self._shards.get(shard)
        if before is None or (before.begin, before.is_certain) != (end, True):
            self._shards[shard] = _Shard(end, is_certain=True)

    def keep(self, partitions: Collection[Partition]) -> None:
        """Forget all shards but those of some partitions' streams."""
        topics = {partition.topic for partition in partitions}
        for shard in [shard for shard in self._shards if shard.topic not in topics]:
            del self._shards[shard]

    def states(self, topic: str, stream: Stream) -> Iterator[LakeState]:
        """Yield how far the open shards of a stream are published; none of one without a lake."""
        if stream.options.lake is None:
            return
        with suppress(ShardlogError):
            for number, committed in stream.committed().items():
                yield self._state(stream, Partition(topic, number), committed)

    def oldest_s(self, topic: str, stream: Stream) -> float:
        """Return how long the oldest row of a stream that is not published has waited."""
        return max((state.age_s for state in self.states(topic, stream)), default=0.0)

    def _state(self, stream: Stream, key: Partition, committed: int) -> LakeState:
        shard = self._shards.get(key)
        if shard is None:
            shard = self._shards[key] = self._seen_first(stream, key)
        if shard.first_ms is None and shard.begin < committed:
            shard.first_ms = stream.first_committed_ms(key.number, shard.begin)
        now_ms = self._clock.now_ns() // _NS_A_MS
        return LakeState(
            key,
            shard.begin if shard.is_certain else None,
            max(committed - shard.begin, 0),
            0.0 if shard.first_ms is None else max(now_ms - shard.first_ms, 0) / 1000,
        )

    def _seen_first(self, stream: Stream, key: Partition) -> _Shard:
        published = self._notes.published(
            key.topic, key.number, stream.options.lake, stream.lineage(key.number)
        )
        if published is not None:
            return _Shard(published, is_certain=True)
        return _Shard(stream.part_marks()[key.number][0], is_certain=False)
