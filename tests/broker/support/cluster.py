"""What others do to a cluster: they remove topics and records, and produce in transactions.

shardlog does neither, so librdkafka is called by itself.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition, admin
from typing_extensions import override

from connectors.kafka import Admin, Partition
from storage_core import BrokerUnavailableError
from tests.waiting import WAIT_MAX_S, await_that

# NOTE: the stubs of confluent-kafka (2.16) do not export these names.
_library: Any = admin
# A broker that was short of processor time may have lost the leadership for a moment.
_OF_A_MOMENT = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


class PatientAdmin(Admin):
    """Asks for as long as tests wait: a broker short of processor time answers late."""

    @override
    def partitions(self, timeout_s: float = WAIT_MAX_S) -> dict[str, int]:
        return super().partitions(timeout_s)

    @override
    def create_topic(
        self, topic: str, partitions: int, config: Mapping[str, str], replicas: int | None = 1
    ) -> bool:
        made: list[bool] = []
        make = super().create_topic

        def is_made() -> bool:
            with suppress(BrokerUnavailableError):
                made.append(make(topic, partitions, config, replicas))
            return bool(made)

        await_that(is_made, f"topic {topic}")
        return made[0]


class Cluster:
    """Whoever may change topics."""

    def __init__(self, bootstrap: str) -> None:
        self._client = _library.AdminClient({"bootstrap.servers": bootstrap})

    def delete_topic(self, topic: str) -> None:
        self._await(self._client.delete_topics([topic], operation_timeout=WAIT_MAX_S))

    def add_partitions(self, topic: str, total: int) -> None:
        """Raise a topic's number of partitions."""
        self._await(self._client.create_partitions([_library.NewPartitions(topic, total)]))

    def delete_records(self, partition: Partition, end: int) -> None:
        """Remove the records below an offset, as retention does."""

        def is_removed() -> bool:
            try:
                self._await(self._client.delete_records([TopicPartition(*partition, end)]))
            except KafkaException as error:
                if error.args[0].code() not in _OF_A_MOMENT:
                    raise
                return False
            return True

        await_that(is_removed, f"records of {partition} were not removed")

    def assigned(self, group: str) -> int:
        """Return how many partitions a group's members have been given."""
        (described,) = self._client.describe_consumer_groups([group]).values()
        try:
            members = described.result(WAIT_MAX_S).members
        except KafkaException:
            # A broker of a moment ago has yet to load its groups.
            return 0
        return sum(len(member.assignment.topic_partitions) for member in members)

    def _await(self, futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result(WAIT_MAX_S)


# The longest that a broker allows.
LONGEST_TRANSACTION_MS = 900_000


class Transactions:
    """A producer that sends nothing outside of a transaction."""

    def __init__(self, bootstrap: str, name: str, timeout_ms: int = 60_000) -> None:
        """Register with the cluster, which ends what is left open after so long."""
        self._client: Any = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": timeout_ms,
            }
        )
        self._client.init_transactions(WAIT_MAX_S)

    def send(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes]], *, is_committed: bool
    ) -> None:
        """Send records in one transaction, and commit or abort it."""
        self._client.begin_transaction()
        self._send(topic, records)
        if is_committed:
            self._client.commit_transaction(WAIT_MAX_S)
        else:
            self._client.abort_transaction(WAIT_MAX_S)

    def leave_open(self, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
        """Send records in a transaction that nobody ends."""
        self._client.begin_transaction()
        self._send(topic, records)

    def _send(self, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
        for key, value in records:
            self._client.produce(topic, value, key)
        # NOTE: aborting before the broker knows the transaction's partitions is fatal (2.16).
        self._client.flush(WAIT_MAX_S)
