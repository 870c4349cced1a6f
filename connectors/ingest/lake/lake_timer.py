"""The lake in a worker: what its shards have sealed is published, in a process beside it.

A pass comes as often as one of maintenance, and behind each that built something. It asks nothing
of the store where a shard has the parts that it had at its last publish. A store that fails makes a
stream pause; it stops neither ingestion nor maintenance, and what waits is measured. The shard
whose oldest row has waited for longest goes first.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from connectors.group.lake_notes import LakeNote, LakeNotes
from connectors.group.partition_files import WHOLE_TOPIC
from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.background_passes import BackgroundPasses, every_of
from connectors.ingest.lake.store_pauses import StorePauses, is_of_shard
from connectors.ingest.lake.unpublished import UnpublishedRows
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.failure_lines import FailureLines
from connectors.ingest.status.worker_state import LakeCounts, LakeState
from connectors.kafka import Partition
from connectors.settings.lake_settings import LakeSettings
from storage_core import Clock, ClosedError, ShardlogError, Stream
from storage_core.lake import (
    LakeOwnerError,
    LakePublisher,
    PublishOrder,
    ShardPublished,
    lake_target,
)

# Rows that wait for so many times as long as they may are more urgent than what Kafka holds.
_URGENT_LAGS: Final = 5
_THREAD_NAME: Final = "shardlog-publish"
# Whether files may go is looked at so often while they grow old, and not more often than that.
_LOOKS_AT_FILES: Final = 10
_LOOK_EVERY_MIN_S: Final = 60.0
# The marks of a shard of which nothing was ever sealed.
_NO_PARTS: Final = (0, 0)

# What was published of some shards of one stream.
Published = Mapping[int, ShardPublished]


class LakeTimer:
    """Publishes the worker's shards."""

    def __init__(  # noqa: PLR0913 - what publishing concerns
        self,
        root: Path,
        settings: LakeSettings,
        every_s: float,
        counts: WorkerCounts,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
        on_other_owner: Callable[[Partition], None] = lambda _partition: None,
    ) -> None:
        """Wait for the first pass.

        Args:
            root: The directory that holds the streams.
            settings: How the stores are reached.
            every_s: The longest time between the starts of two passes; 0 for none at all.
            counts: Where rows are counted.
            clock: Time.
            log: Where it is logged.
            on_other_owner: Called with a partition that another log publishes.
        """
        self._on_other_owner = on_other_owner
        self._passes: BackgroundPasses[Published] = BackgroundPasses(
            _THREAD_NAME, every_s, self.publish
        )
        self._root = root
        self._settings = settings
        self._every_s = every_s
        self._counts = counts
        self._clock = clock
        self._log = log
        self._failures = FailureLines("publishing failed", log.warning)
        self._pauses = StorePauses(clock)
        self._notes = LakeNotes(root)
        self._unpublished = UnpublishedRows(self._notes, clock)
        self._publisher = LakePublisher(clock)
        # Of the pass's thread: the marks of part lists that are published.
        self._done: dict[Partition, tuple[int, int]] = {}
        # When each shard was published last, by a clock that runs on.
        self._done_s: dict[Partition, float] = {}
        self._now_s = 0.0
        self._refused: set[Partition] = set()

    def tick(self, writers: Mapping[Partition, PartitionWriter], now_s: float) -> None:
        """Log what was published, and start a pass if one is due."""
        self._now_s = now_s
        self.report()
        streams = lake_streams(writers)
        if not streams or not self._passes.is_due(now_s, every_of(self._every_s, streams.values())):
            return
        self._unpublished.keep(streams)
        self._passes.start(dict(self.oldest_first(streams)))

    def hasten(self) -> None:
        """Have the next pass come at once: there are parts to publish."""
        self._passes.hasten()

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is."""
        return self._passes.is_under_way

    @property
    def publisher_id(self) -> int | None:
        """The process that publishes; None where there is none."""
        return self._publisher.process_id

    def oldest_first(
        self, streams: Mapping[Partition, Stream]
    ) -> Iterable[tuple[Partition, Stream]]:
        """Return streams by how long their oldest row has waited, the longest first."""
        return sorted(
            streams.items(),
            key=lambda item: self._unpublished.oldest_s(item[0].topic, item[1]),
            reverse=True,
        )

    def is_urgent(self, partition: Partition, stream: Stream) -> bool:
        """Tell whether rows wait for so long that they go before all else."""
        if stream.options.lake is None:
            return False
        waited_s = self._unpublished.oldest_s(partition.topic, stream)
        return waited_s > _URGENT_LAGS * stream.options.lake_lag.total_seconds()

    def has_unpublished(self, partition: Partition, stream: Stream) -> bool:
        """Tell whether a partition has committed rows that are not published."""
        states = self._unpublished.states(partition.topic, stream)
        return any(state.unpublished for state in states)

    def states_of(self, writers: Mapping[Partition, PartitionWriter]) -> tuple[LakeState, ...]:
        """Return how far the open shards of partitions are published, of those with a lake."""
        return tuple(
            replace(state, has_other_owner=state.shard in self._refused)
            for partition, stream in lake_streams(writers).items()
            for state in self._unpublished.states(partition.topic, stream)
        )

    def counts_of(self, writers: Mapping[Partition, PartitionWriter]) -> dict[str, LakeCounts]:
        """Return what was published of the streams that have a lake, and of those that were."""
        counts = self._counts
        of_before = (counts.lake_rows, counts.lake_failures, counts.lake_begun_shards)
        topics = lake_topics(writers).union(*of_before)
        return {
            topic: LakeCounts(
                counts.lake_rows[topic],
                counts.lake_bytes[topic],
                counts.lake_failures[topic],
                counts.lake_begun_shards[topic],
            )
            for topic in sorted(topics)
        }

    def publish(self, partition: Partition, stream: Stream) -> Published:
        """Publish what is new of a partition's open shards. Any thread.

        Raises:
            ShardlogError: What kept it from that; the next try comes after a pause.
        """
        published: dict[int, ShardPublished] = {}
        for number, marks in stream.part_marks().items():
            shard = Partition(partition.topic, number)
            if self._is_done(stream, shard, marks) or self._pauses.has(shard):
                continue
            try:
                published[number] = self._publish(stream, shard)
            except ClosedError:
                raise
            except ShardlogError as error:
                # Of one that was closed meanwhile, and may have begun anew, it says nothing.
                stream.committed()
                self._pauses.failed(shard, error)
                raise
            self._pauses.succeeded(shard)
        return published

    def _is_done(self, stream: Stream, shard: Partition, marks: tuple[int, int]) -> bool:
        """Tell whether a shard has nothing new, nor files that may be old enough to go by now."""
        if self._done.get(shard, _NO_PARTS) != marks:
            return False
        keep_local = stream.options.keep_local
        if keep_local is None or marks == _NO_PARTS:
            return True
        done_s = self._done_s.get(shard, 0.0)
        every_s = max(_LOOK_EVERY_MIN_S, keep_local.total_seconds() / _LOOKS_AT_FILES)
        return self._clock.monotonic_s() - done_s < every_s

    def take(self, partition: Partition, outcome: Published | ShardlogError | OSError) -> None:
        """Log and count what came of a partition. The worker's thread."""
        topic = partition.topic
        if isinstance(outcome, ShardlogError | OSError):
            self._counts.lake_failures[topic] += 1
            if isinstance(outcome, LakeOwnerError) and outcome.shard is not None:
                self._refused.add(Partition(topic, outcome.shard))
                self._on_other_owner(partition)
            # That of a table or a store is the same for all of its shards.
            concerned = partition if is_of_shard(outcome) else Partition(topic, WHOLE_TOPIC)
            self._failures.note(concerned, str(outcome), self._now_s)
            return
        for number, done in outcome.items():
            self._refused.discard(Partition(topic, number))
            self._unpublished.published(Partition(topic, number), done.end)
            self._counts.lake_rows[topic] += done.rows
            self._counts.lake_bytes[topic] += done.bytes
            if done.parts_lost:
                reason = (
                    f"the table lacks {done.parts_lost} parts that were published; "
                    "`shardlog lake repair` brings them back"
                )
                self._failures.note(Partition(topic, number), reason, self._now_s)
            if not done.is_whole:
                self.hasten()
            if done.commits:
                self._log.info(
                    "published",
                    topic=topic,
                    shard=number,
                    rows=done.rows,
                    files=done.files_added,
                    removed=done.files_removed,
                    bytes=done.bytes,
                    end=done.end,
                    archives_removed=done.logs_removed,
                    archives_kept=done.logs_kept,
                )

    def report(self) -> None:
        """Log the shards that were done since, and count their rows."""
        self._counts.publishers_died = self._publisher.deaths
        for partition, outcome in self._passes.outcomes():
            self.take(partition, outcome)

    def settle(self, wait_s: float) -> None:
        """Wait for the pass under way, for so long, and log what was done."""
        self._passes.settle(wait_s)
        self.report()

    def close(self, wait_s: float) -> None:
        """Stop publishing, wait so long for the pass, and log what was done."""
        self._publisher.close()
        self.settle(wait_s)

    def _publish(self, stream: Stream, shard: Partition) -> ShardPublished:
        lake = str(stream.options.lake)
        target = lake_target(lake, self._settings.storage_options())
        order = PublishOrder(self._root, shard.topic, shard.number, target)
        answer = self._publisher.publish(order)
        if answer.published.is_whole:
            self._done[shard] = answer.part_marks
            self._done_s[shard] = self._clock.monotonic_s()
        now_ms = self._clock.now_ns() // 10**6
        note = LakeNote(lake, stream.lineage(shard.number), answer.published.end, now_ms)
        self._notes.write(shard, note)
        return answer.published


def lake_streams(writers: Mapping[Partition, PartitionWriter]) -> dict[Partition, Stream]:
    """Return the streams of those partitions that have a lake."""
    return {
        partition: writer.stream
        for partition, writer in writers.items()
        if writer.stream.options.lake is not None
    }


def lake_topics(writers: Mapping[Partition, PartitionWriter]) -> set[str]:
    """Return the topics of those partitions whose streams have a lake."""
    return {partition.topic for partition in lake_streams(writers)}
