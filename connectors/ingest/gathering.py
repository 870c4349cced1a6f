"""What was consumed and waits for its round: columns, by partition, bounded by the worker.

One call brings stretches of records, and faults between them, in their order. The order decides
what becomes of a record. Those before a fault of their partition are in hand and Kafka may not
have them any more; they have to be kept before the fault is acted on. Those behind it stem from
before whatever the fault made the worker do.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from connectors.ingest.counts import WorkerCounts
from connectors.ingest.mapping import ShardRecords, by_partition, map_partitions
from connectors.ingest.shard_feed import ShardFeed
from connectors.kafka_client import FIELDS, Messages, Partition, PartitionFault, fault_of
from connectors.settings.stream_settings import MappingRules


class Gathering:
    """Records on their way into a round. Belongs to the worker's thread."""

    def __init__(
        self, counts: WorkerCounts, topic: str | None, records_max: int, bytes_max: int
    ) -> None:
        """Hold nothing.

        Args:
            counts: Where what is dropped is counted.
            topic: The one topic there can be; None when there may be several.
            records_max: Records that make a round.
            bytes_max: Bytes that make a round.
        """
        self._counts = counts
        self._topic = topic
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

    def add(self, messages: Messages, feeds: Mapping[Partition, ShardFeed], now_s: float) -> None:
        """Map records and keep those of partitions owned; the owner of others fetches them.

        Each stream's by its own rules, in one pass where all have the same.
        """
        if not messages:
            return
        if not self.count:
            self.since_s = now_s
        alike: dict[MappingRules, dict[Partition, Messages]] = {}
        for partition, own in by_partition(messages, self._topic).items():
            feed = feeds.get(partition)
            if feed is None:
                self._counts.drop(len(own))
            else:
                alike.setdefault(feed.rules, {})[partition] = own
        for rules, partitions in alike.items():
            for partition, records in map_partitions(partitions, rules):
                self._parts.setdefault(partition, []).append(records)
                self._bytes += records.rows.nbytes + sum(map(len, records.dead_letters.values()))
        self.count += len(messages)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget the records of some partitions."""
        for partition in partitions:
            parts = self._parts.pop(partition, [])
            self._counts.drop(sum(part.count for part in parts))
        if not self._parts:
            self.take()

    def drop_all(self) -> None:
        """Forget all of them."""
        self.drop(list(self._parts))

    def take(self) -> dict[Partition, list[ShardRecords]]:
        """Hand all of it over."""
        taken, self._parts = self._parts, {}
        self.count = self._bytes = 0
        return taken


def holds_faults(messages: Messages) -> bool:
    """Tell whether there are error events among the records."""
    return any(map(FIELDS.error, messages))


def stretches(messages: Messages) -> Iterator[tuple[Messages, PartitionFault | None]]:
    """Yield records with the fault that follows them; behind the last of them there is none.

    Every record comes once, in its order. Error events that concern no partition are left out.

    Raises:
        ShardlogError: The consumer cannot go on.
    """
    records: Messages = []
    for message in messages:
        if FIELDS.error(message) is None:
            records.append(message)
            continue
        fault = fault_of(message)
        if fault is not None:
            yield records, fault
            records = []
    yield records, None


def are_of(records: Messages, partitions: Collection[Partition]) -> set[Partition]:
    """Return those of the partitions that records belong to."""
    found = set(zip(map(FIELDS.topic, records), map(FIELDS.partition, records), strict=True))
    return {partition for partition in partitions if partition in found}


def without(records: Messages, partitions: Collection[Partition]) -> Messages:
    """Return the records that belong to none of the partitions."""
    return [m for m in records if (FIELDS.topic(m), FIELDS.partition(m)) not in partitions]
