"""What one call brought: stretches of records, and the faults between them, in their order.

The order decides what becomes of a record. Those before a fault of their partition are in hand
and Kafka may not have them any more; they have to be kept before the fault is acted on. Those
behind it stem from before whatever the fault made the worker do.

Pure functions over messages; the worker calls them.
"""

from collections.abc import Collection, Iterator

from connectors.kafka_client import FIELDS, Messages, Partition, PartitionFault, fault_of


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
