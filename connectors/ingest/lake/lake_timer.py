"""The lake in a worker: what its shards have sealed is published, in a process beside it.

A pass comes as often as one of maintenance, and behind each that built something: it waits a little
for what is being built beside it, so that all shards of a topic come in one commit, but no shard
waits for long for another. Topics are done one after the other, that whose oldest row has waited
for longest first, and so are the shards of each. A store that fails makes a topic pause
(topic_publishing.py); it stops neither ingestion nor maintenance, and what waits is measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from connectors.group.partition_files import WHOLE_TOPIC
from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.background_passes import BackgroundPasses, every_of
from connectors.ingest.lake.store_pauses import is_of_shard
from connectors.ingest.lake.topic_publishing import TopicPublished, TopicPublishing
from connectors.ingest.lake.unpublished import UnpublishedRows
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.failure_lines import FailureLines
from connectors.ingest.status.worker_state import LakeCounts, LakeState
from connectors.kafka import Partition
from connectors.settings.lake_settings import LakeSettings
from storage_core import Clock, ShardlogError, Stream
from storage_core.lake import LakeNotes, LakeOwnerError, ShardPublished

# Rows that wait for so many times as long as they may are more urgent than what Kafka holds.
_URGENT_LAGS: Final = 5
_THREAD_NAME: Final = "shardlog-publish"
# What was built waits for so much of `lake_lag` for what is being built beside it.
_TOGETHER_SHARE: Final = 0.1


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
        self._every_s = every_s
        self._counts = counts
        self._clock = clock
        self._log = log
        self._failures = FailureLines("publishing failed", log.warning)
        self._unpublished = UnpublishedRows(LakeNotes(root), clock)
        self._publishing = TopicPublishing(root, settings, clock)
        self._passes: BackgroundPasses[str, Mapping[Partition, Stream], TopicPublished] = (
            BackgroundPasses(_THREAD_NAME, every_s, self._publishing.publish)
        )
        # Since when something waits that was built.
        self._built_s: float | None = None
        self._now_s = 0.0
        self._refused: set[Partition] = set()

    def tick(
        self,
        writers: Mapping[Partition, PartitionWriter],
        now_s: float,
        *,
        is_building: bool = False,
    ) -> None:
        """Log what was published, and start a pass if one is due.

        Args:
            writers: The partitions whose shards are open.
            now_s: The time.
            is_building: Whether parts of some shards are being built just now.
        """
        self._now_s = now_s
        self.report()
        streams = lake_streams(writers)
        if not streams or (is_building and self._waits_for_parts(streams)):
            return
        if not self._passes.is_due(now_s, every_of(self._every_s, streams.values())):
            return
        self._built_s = None
        self._unpublished.keep(streams)
        self._passes.start(by_topic(self.oldest_first(streams)))

    def built(self) -> None:
        """Take note that a shard has parts to publish: the next pass comes soon."""
        if self._built_s is None:
            self._built_s = self._now_s
        self._passes.hasten()

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is."""
        return self._passes.is_under_way

    @property
    def publisher_id(self) -> int | None:
        """The process that publishes; None where there is none."""
        return self._publishing.process_id

    def oldest_first(self, streams: Mapping[Partition, Stream]) -> dict[Partition, Stream]:
        """Return streams by how long their oldest row has waited, the longest first."""
        ordered = sorted(
            streams.items(),
            key=lambda item: self._unpublished.oldest_s(item[0].topic, item[1]),
            reverse=True,
        )
        return dict(ordered)

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

    def publish(self, topic: str, streams: Mapping[Partition, Stream]) -> TopicPublished:
        """Publish what is new of partitions of a topic. Any thread.

        Raises:
            ShardlogError: As `TopicPublishing.publish` does.
        """
        return self._publishing.publish(topic, streams)

    def take(self, topic: str, outcome: TopicPublished | ShardlogError | OSError) -> None:
        """Log and count what came of a topic. The worker's thread."""
        if not isinstance(outcome, TopicPublished):
            self._take_failure(Partition(topic, WHOLE_TOPIC), outcome)
            return
        for partition, done in outcome.outcomes:
            if isinstance(done, ShardlogError | OSError):
                self._take_failure(partition, done)
            else:
                self._take_published(topic, done)
        if not outcome.is_whole:
            self._passes.hasten()

    def report(self) -> None:
        """Log the shards that were done since, and count their rows."""
        self._counts.publishers_died = self._publishing.deaths
        for topic, outcome in self._passes.outcomes():
            self.take(topic, outcome)

    def settle(self, wait_s: float) -> None:
        """Wait for the pass under way, for so long, and log what was done."""
        self._passes.settle(wait_s)
        self.report()

    def close(self, wait_s: float) -> None:
        """Stop publishing, wait so long for the pass, and log what was done."""
        self._publishing.close()
        self.settle(wait_s)

    def _take_failure(self, partition: Partition, error: ShardlogError | OSError) -> None:
        topic = partition.topic
        self._counts.lake_failures[topic] += 1
        if isinstance(error, LakeOwnerError) and error.shard is not None:
            self._refused.add(Partition(topic, error.shard))
            self._on_other_owner(partition)
        # That of a table or a store is the same for all of its shards.
        concerned = partition if is_of_shard(error) else Partition(topic, WHOLE_TOPIC)
        self._failures.note(concerned, str(error), self._now_s)

    def _take_published(self, topic: str, published: Mapping[int, ShardPublished]) -> None:
        for number, done in published.items():
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

    def _waits_for_parts(self, streams: Mapping[Partition, Stream]) -> bool:
        """Tell whether what was built waits a moment for what is being built beside it."""
        if self._built_s is None:
            return False
        lag_s = min(stream.options.lake_lag.total_seconds() for stream in streams.values())
        return self._now_s - self._built_s < _TOGETHER_SHARE * lag_s


def lake_streams(writers: Mapping[Partition, PartitionWriter]) -> dict[Partition, Stream]:
    """Return the streams of those partitions that have a lake."""
    return {
        partition: writer.stream
        for partition, writer in writers.items()
        if writer.stream.options.lake is not None
    }


def by_topic(streams: Mapping[Partition, Stream]) -> dict[str, dict[Partition, Stream]]:
    """Return the streams of partitions by topic, in their order."""
    topics: dict[str, dict[Partition, Stream]] = {}
    for partition, stream in streams.items():
        topics.setdefault(partition.topic, {})[partition] = stream
    return topics


def lake_topics(writers: Mapping[Partition, PartitionWriter]) -> set[str]:
    """Return the topics of those partitions whose streams have a lake."""
    return {partition.topic for partition in lake_streams(writers)}
