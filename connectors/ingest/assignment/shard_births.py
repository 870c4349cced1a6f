"""Where the log of a partition begins that has no shard yet, here or in a lake.

With the first shard of a stream all partitions there are begin where `start` says; one that is
added later begins at its first record, and so does a topic that appears later. Of a stream with a
lake that another root stored and had not published yet, all is taken that Kafka has.
"""

from collections.abc import Collection
from typing import Any

from connectors.ingest.assignment.cluster_answers import ClusterAnswers
from connectors.ingest.assignment.lake_start import unpublished
from connectors.ingest.assignment.topic_identity import TopicIdentities
from connectors.ingest.lake.lake_shards import LakeShards
from connectors.kafka import Consumer, Partition
from connectors.settings.options import WorkerOptions
from storage_core import StreamDescription


class ShardBirths:
    """Says where shards begin. Belongs to the worker's thread, between rounds."""

    def __init__(  # noqa: PLR0913 - what a birth concerns
        self,
        options: WorkerOptions,
        consumer: Consumer,
        identities: TopicIdentities,
        answers: ClusterAnswers,
        lake_shards: LakeShards,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        self._options = options
        self._consumer = consumer
        self._identities = identities
        self._answers = answers
        self._lake_shards = lake_shards
        self._log = log

    def numbers(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic that there are, or that the settings name."""
        if self._options.mode == "static":
            return self._options.partitions[topic]
        return range(self._identities.partitions_of(topic))

    def starts(
        self,
        partition: Partition,
        stream: StreamDescription,
        gone: Collection[str],
        first_topics: Collection[str] | None,
    ) -> dict[int, int]:
        """Return where shards begin that are not there yet, the partition's own among them.

        Args:
            partition: The partition.
            stream: Its stream.
            gone: Lineages of logs that were dropped from this root, or archived in it.
            first_topics: With start=latest, the topics it is said of; None for all.

        Raises:
            LostRangeError: Another root has stored what Kafka has no more, and no lake has it.
            BrokerUnavailableError: The cluster is silent.
        """
        if stream.options.lake is not None and self._is_of_others(partition, gone):
            return {partition.number: self._first_of_others(partition)}
        if stream.shards:
            edges = self._answers.first_watermarks(partition)
            return {partition.number: self._first(partition, *edges)}
        partitions = [Partition(partition.topic, at) for at in self.numbers(partition.topic)]
        self._answers.ask(partitions)
        if stream.options.lake is not None:
            # Those of others begin once they come, with what is published of them by then.
            partitions = [
                other
                for other in partitions
                if other == partition or not self._has_log(other, gone)
            ]
        return {each.number: self._birth(each, first_topics) for each in partitions}

    def _has_log(self, partition: Partition, gone: Collection[str]) -> bool:
        """Tell whether a partition is in the lake, or another root has stored it."""
        return self._lake_shards.has(partition) or self._is_of_others(partition, gone)

    def _is_of_others(self, partition: Partition, gone: Collection[str]) -> bool:
        """Tell whether the group has stored a partition in another root."""
        home = self._answers.side(partition).home
        return home is not None and home.lineage not in gone

    def _first_of_others(self, partition: Partition) -> int:
        """Return where a partition begins that another root stored and did not publish.

        Raises:
            LostRangeError: Kafka has not all of it.
        """
        side = self._answers.side(partition)
        lost = unpublished(side, partition)
        if lost is not None and self._options.on_out_of_range == "stop":
            raise lost
        self._log.warning(
            "shard begins anew",
            topic=partition.topic,
            shard=partition.number,
            group_offset=side.stored,
            start=side.low,
            reason=f"root {side.root} stored it, and the lake has nothing of it",
        )
        return side.low

    def _birth(self, partition: Partition, first_topics: Collection[str] | None) -> int:
        low, end = self._answers.first_watermarks(partition)
        start_ms = self._options.start_ms()
        if start_ms is not None:
            offset = self._consumer.offset_at(partition, start_ms)
            return end if offset is None else max(low, offset)
        is_new = first_topics is not None and partition.topic not in first_topics
        if self._options.start == "earliest" or is_new:
            return self._first(partition, low, end)
        return end

    def _first(self, partition: Partition, low: int, end: int) -> int:
        """Return the first offset that Kafka holds, and tell where that is not the very first."""
        if low:
            # Who just produced records that retention took at once would look for them in vain.
            self._log.info(
                "log start offset is not 0",
                topic=partition.topic,
                shard=partition.number,
                offset=low,
                end=end,
                reason="Kafka's retention, or a deletion, took what was below"
                + (", all there was" if low == end else ""),
            )
        return low
