"""Questions to the cluster, and its administration."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import confluent_kafka as rdkafka
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka import admin as rdadmin

from connectors.kafka.reach import await_broker
from connectors.kafka.settings import REQUEST_TIMEOUT_S, admin_settings
from connectors.kafka.terms import Partition
from connectors.kafka.translate import code_of, means_no_topic, translated
from storage_core import BrokerUnavailableError, InvalidRequestError

# NOTE: its stubs (2.16) neither export these names nor take a logger.
_library: Any = rdadmin


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a consumer group, as the cluster knows it.

    Attributes:
        member_id: The id that the cluster gave it.
        instance_id: Its `group.instance.id`, where it is a static member.
        client_id: Its `client.id`.
        host: Where it connects from.
        partitions: What is assigned to it.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...]


class Admin:
    """Questions to the cluster, and its administration. Any thread."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        """Connect in the background; settings that concern consuming are left out."""
        self._settings = settings
        with translated("connecting to Kafka"):
            self._client: Any = _library.AdminClient(admin_settings(settings))

    def await_broker(self, timeout_s: float, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Return once a broker answers, or that is no longer wanted; `reach.await_broker`."""
        await_broker(self._settings, timeout_s, is_wanted)

    def is_serving(self, timeout_s: float = REQUEST_TIMEOUT_S) -> bool:
        """Tell whether a broker names itself and a controller, so that it takes what is asked."""
        try:
            metadata = self._client.list_topics(timeout=timeout_s)
        except rdkafka.KafkaException:
            return False
        return bool(metadata.brokers) and metadata.controller_id >= 0

    def partitions(self, timeout_s: float = REQUEST_TIMEOUT_S) -> dict[str, int]:
        """Return every topic with its number of partitions."""
        with translated("listing topics"):
            topics = self._client.list_topics(timeout=timeout_s).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def partition_count(self, topic: str, timeout_s: float = REQUEST_TIMEOUT_S) -> int:
        """Return how many partitions a topic has; 0 where it is not there."""
        return partition_count(self._client, topic, timeout_s)

    def log_starts(
        self, partitions: Iterable[Partition], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> dict[Partition, int]:
        """Return where each partition's log begins; a partition that is not there has no entry."""
        return self._ask_offsets(partitions, _library.OffsetSpec.earliest(), timeout_s)(timeout_s)

    def log_ends(
        self,
        partitions: Iterable[Partition],
        timeout_s: float = REQUEST_TIMEOUT_S,
        *,
        is_stable: bool = False,
    ) -> dict[Partition, int]:
        """Return the end of each partition's log; a partition that is not there has none."""
        return self.ask_log_ends(partitions, timeout_s, is_stable=is_stable)(timeout_s)

    def ask_log_ends(
        self,
        partitions: Iterable[Partition],
        timeout_s: float = REQUEST_TIMEOUT_S,
        *,
        is_stable: bool = False,
    ) -> Callable[[float], dict[Partition, int]]:
        """Ask for the ends of logs; the answer is fetched by calling what is returned.

        The call takes the longest wait in seconds. A partition that is not there has no entry.

        Args:
            partitions: Those asked for.
            timeout_s: How long the cluster may take.
            is_stable: The last stable offset, where the first open transaction begins, and not the
                end of all that was written.
        """
        latest = _library.OffsetSpec.latest()
        return self._ask_offsets(partitions, latest, timeout_s, is_stable=is_stable)

    def _ask_offsets(
        self,
        partitions: Iterable[Partition],
        spec: object,
        timeout_s: float,
        *,
        is_stable: bool = False,
    ) -> Callable[[float], dict[Partition, int]]:
        specs = {TopicPartition(*part): spec for part in partitions}
        level = rdkafka.IsolationLevel
        futures: dict[TopicPartition, Future[Any]] = {}
        if specs:
            with translated("asking for offsets"):
                futures = self._client.list_offsets(
                    specs,
                    isolation_level=level.READ_COMMITTED if is_stable else level.READ_UNCOMMITTED,
                    request_timeout=timeout_s,
                )

        def answer(wait_s: float) -> dict[Partition, int]:
            ends = {}
            for place, future in futures.items():
                try:
                    self._await({place: future}, "asking for offsets", wait_s)
                except InvalidRequestError as error:
                    if not means_no_topic(error):
                        raise
                else:
                    ends[Partition(place.topic, place.partition)] = int(future.result().offset)
            return ends

        return answer

    def ask_group_offsets(
        self, group: str, partitions: Iterable[Partition]
    ) -> Callable[[float], dict[Partition, int]]:
        """Ask where a group stands; the answer is fetched by calling what is returned.

        The call takes the longest wait in seconds. A partition without an offset has no entry.
        """
        places = [TopicPartition(*part) for part in partitions]
        requests = [rdkafka.ConsumerGroupTopicPartitions(group, places)] if places else []
        futures: dict[str, Future[Any]] = {}
        if requests:
            with translated("asking for the group's offsets"):
                futures = self._client.list_consumer_group_offsets(
                    requests, request_timeout=REQUEST_TIMEOUT_S
                )

        def answer(wait_s: float) -> dict[Partition, int]:
            self._await(futures, "asking for the group's offsets", wait_s)
            offsets = [place for one in futures.values() for place in one.result().topic_partitions]
            return {
                Partition(place.topic, place.partition): place.offset
                for place in offsets
                if place.offset >= 0 and not place.error
            }

        return answer

    def group_members(self, group: str, timeout_s: float = REQUEST_TIMEOUT_S) -> list[GroupMember]:
        """Return the members of a group, with their partitions; none of one that is not there.

        Raises:
            ShardlogError: The cluster does not answer, or does not let us.
        """
        doing = "describing the group"
        with translated(doing):
            futures = self._client.describe_consumer_groups([group], request_timeout=timeout_s)
        self._await(futures, doing, timeout_s)
        return [
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.host.removeprefix("/"),
                tuple(
                    Partition(place.topic, place.partition)
                    for place in member.assignment.topic_partitions
                ),
            )
            for member in futures[group].result().members
        ]

    def ask_topic_ids(
        self, topics: Iterable[str]
    ) -> Callable[[float], dict[str, str | InvalidRequestError]]:
        """Ask for the ids of topics; the answer is fetched by calling what is returned.

        The call takes the longest wait in seconds. A topic that is not there has no entry; one
        that may not be described has the reason in place of its id.
        """
        names = sorted(set(topics))
        collection = rdkafka.TopicCollection(names)
        with translated("asking for topic ids"):
            futures: dict[str, Future[Any]] = self._client.describe_topics(
                collection, request_timeout=REQUEST_TIMEOUT_S
            )

        def answer(timeout_s: float) -> dict[str, str | InvalidRequestError]:
            topic_ids: dict[str, str | InvalidRequestError] = {}
            for name, future in futures.items():
                try:
                    with translated("asking for topic ids"):
                        topic_ids[name] = str(future.result(timeout_s).topic_id)
                except TimeoutError as error:
                    message = f"asking for topic ids: no answer in {timeout_s:g} s"
                    raise BrokerUnavailableError(message) from error
                except InvalidRequestError as error:
                    if not means_no_topic(error):
                        topic_ids[name] = error
            return topic_ids

        return answer

    def ask_retentions(self, topics: Iterable[str]) -> Callable[[float], dict[str, float | None]]:
        """Ask how long topics keep records; the answer is fetched by calling what is returned.

        The call takes the longest wait in seconds. A topic that keeps them for good, or the newest
        of each key, has None; one that may not be described has no entry.
        """
        doing = "asking for the retention of topics"
        resources = [_library.ConfigResource(_library.ResourceType.TOPIC, name) for name in topics]
        futures: dict[Any, Future[Any]] = {}
        if resources:
            with translated(doing):
                futures = self._client.describe_configs(
                    resources, request_timeout=REQUEST_TIMEOUT_S
                )

        def answer(wait_s: float) -> dict[str, float | None]:
            retentions: dict[str, float | None] = {}
            for resource, future in futures.items():
                try:
                    self._await({resource: future}, doing, wait_s)
                except InvalidRequestError:
                    continue
                retentions[resource.name] = _retention_s(future.result())
            return retentions

        return answer

    def create_topic(
        self, topic: str, partitions: int, config: Mapping[str, str], replicas: int | None = 1
    ) -> bool:
        """Make a topic; tell whether it was not there before.

        Args:
            topic: Its name.
            partitions: How many it has.
            config: Its settings, by Kafka's names.
            replicas: How many copies; None for as many as the brokers take by default.
        """
        doing = f"creating topic {topic!r}"
        with translated(doing):
            made = self._client.create_topics(
                [_library.NewTopic(topic, partitions, replicas or -1, config=dict(config))],
                operation_timeout=REQUEST_TIMEOUT_S,
            )
        try:
            self._await(made, doing)
        except InvalidRequestError as error:
            if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    def _await(
        self,
        futures: Mapping[Any, Future[Any]],
        doing: str,
        wait_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        for future in futures.values():
            with translated(doing):
                try:
                    future.result(wait_s)
                except TimeoutError as error:
                    message = f"{doing}: no answer in {wait_s:g} s"
                    raise BrokerUnavailableError(message) from error


def _retention_s(config: Mapping[str, Any]) -> float | None:
    """Return how long a topic with these settings keeps records; None for no such time."""
    retention_ms = int(config["retention.ms"].value)
    if "delete" not in str(config["cleanup.policy"].value) or retention_ms < 0:
        return None
    return retention_ms / 1000


def partition_count(client: Any, topic: str, timeout_s: float) -> int:  # noqa: ANN401 - untyped
    """Return how many partitions a topic has; 0 where it is not there.

    Raises:
        BrokerUnavailableError: Kafka does not answer.
    """
    with translated("listing partitions"):
        topics = client.list_topics(topic, timeout=timeout_s).topics
    return len(topics[topic].partitions) if topic in topics else 0
