"""Offsets by what they mean, and a group's offsets as a tool sets them. Any thread."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Literal

import confluent_kafka as rdkafka
from confluent_kafka import TopicPartition
from confluent_kafka import admin as rdadmin

from connectors.kafka.admin import partition_count
from connectors.kafka.settings import REQUEST_TIMEOUT_S, admin_settings
from connectors.kafka.terms import Partition, Place
from connectors.kafka.translate import translated
from storage_core import BrokerUnavailableError

# NOTE: its stubs (2.16) neither export these names nor take a logger.
_library: Any = rdadmin

Edge = Literal["earliest", "latest"]
_LOOKING: Final = "looking up offsets"


class OffsetAdmin:
    """Looks up offsets, and sets those of a group that nobody consumes by. Any thread."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        """Connect in the background; settings that concern consuming are left out."""
        with translated("connecting to Kafka"):
            self._client: Any = _library.AdminClient(admin_settings(settings))

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 where it is not there.

        Raises:
            BrokerUnavailableError: Kafka does not answer.
        """
        return partition_count(self._client, topic, REQUEST_TIMEOUT_S)

    def edges(self, partitions: Iterable[Partition], edge: Edge) -> dict[Partition, int]:
        """Return where each partition's log begins, or its last stable offset.

        Raises:
            InvalidRequestError: A partition is not there.
            BrokerUnavailableError: Kafka does not answer.
        """
        spec = _library.OffsetSpec
        wanted = spec.earliest() if edge == "earliest" else spec.latest()
        return self._offsets(partitions, wanted)

    def at_time(self, partitions: Iterable[Partition], time_ms: int) -> dict[Partition, int | None]:
        """Return the first offset at or after a time; None where there is none.

        Raises:
            InvalidRequestError: A partition is not there.
            BrokerUnavailableError: Kafka does not answer.
        """
        answers = self._offsets(partitions, _library.OffsetSpec.for_timestamp(time_ms))
        return {partition: at if at >= 0 else None for partition, at in answers.items()}

    def set_group(self, group: str, partition: Partition, place: Place) -> None:
        """Set a group's offset of a partition.

        Raises:
            InvalidRequestError: A member of the group consumes the topic, or may.
            BrokerUnavailableError: Kafka does not answer.
        """
        doing = f"setting the offset of group {group!r}"
        offset = TopicPartition(*partition, place.offset, place.metadata or None)
        request = rdkafka.ConsumerGroupTopicPartitions(group, [offset])
        with translated(doing):
            futures = self._client.alter_consumer_group_offsets(
                [request], request_timeout=REQUEST_TIMEOUT_S
            )
        for future in futures.values():
            answer = _awaited(future, doing)
            with translated(doing):
                for taken in answer.topic_partitions:
                    if taken.error is not None:
                        raise rdkafka.KafkaException(taken.error)

    def _offsets(self, partitions: Iterable[Partition], spec: object) -> dict[Partition, int]:
        requests = {TopicPartition(*partition): spec for partition in partitions}
        with translated(_LOOKING):
            futures = self._client.list_offsets(
                requests,
                isolation_level=rdkafka.IsolationLevel.READ_COMMITTED,
                request_timeout=REQUEST_TIMEOUT_S,
            )
        return {
            Partition(place.topic, place.partition): int(_awaited(future, _LOOKING).offset)
            for place, future in futures.items()
        }


def _awaited(future: Future[Any], doing: str) -> Any:  # noqa: ANN401 - librdkafka's own answers
    with translated(doing):
        try:
            return future.result(REQUEST_TIMEOUT_S)
        except TimeoutError as error:
            message = f"{doing}: no answer in {REQUEST_TIMEOUT_S:g} s"
            raise BrokerUnavailableError(message) from error
