"""Fetched records that wait for their commit round: columns, by partition, bounded."""

from collections.abc import Iterable, Mapping

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.mapping import ShardRecords, map_partitions
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.values.avro_values import FramedValues
from connectors.kafka import Fetched, Partition
from connectors.settings.stream_settings import MappingRules


class PendingBatch:
    """Records on their way into a round. Belongs to the worker's thread."""

    def __init__(self, counts: WorkerCounts, records_max: int, bytes_max: int) -> None:
        """Hold nothing.

        Args:
            counts: Where what is dropped is counted.
            records_max: Records that make a round.
            bytes_max: Bytes that make a round.
        """
        self._counts = counts
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._parts: dict[Partition, list[ShardRecords]] = {}
        self.count = 0
        self.since_s = 0.0

    @property
    def rounds(self) -> float:
        """How many rounds the records would fill."""
        return max(self.count / self._records_max, self._bytes / self._bytes_max)

    def has(self, partition: Partition) -> bool:
        """Tell whether records of a partition are here."""
        return partition in self._parts

    def add(
        self,
        fetched: Fetched,
        writers: Mapping[Partition, PartitionWriter],
        now_s: float,
        framed: FramedValues | None = None,
    ) -> None:
        """Map records and keep those of partitions held here; the owner of others fetches them.

        Each stream's by its own rules, in one pass where all have the same. `framed` is what is
        known of their values, where those have schemas.
        """
        alike: dict[MappingRules, list[Partition]] = {}
        for partition, (start, end) in fetched.runs.items():
            writer = writers.get(partition)
            if writer is None:
                self._counts.discard(end - start)
            else:
                alike.setdefault(writer.rules, []).append(partition)
        if alike and not self.count:
            self.since_s = now_s
        for rules, partitions in alike.items():
            for partition, records in map_partitions(fetched, partitions, rules, framed):
                self._parts.setdefault(partition, []).append(records)
                self.count += records.count
                self._bytes += records.size

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget the records of some partitions."""
        for partition in partitions:
            parts = self._parts.pop(partition, [])
            records = sum(part.count for part in parts)
            self._counts.discard(records)
            self.count -= records
            self._bytes -= sum(part.size for part in parts)

    def drop_all(self) -> None:
        """Forget all of them."""
        self.drop(list(self._parts))

    def take(self) -> dict[Partition, list[ShardRecords]]:
        """Hand all of it over."""
        taken, self._parts = self._parts, {}
        self.count = self._bytes = 0
        return taken
