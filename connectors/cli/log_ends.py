"""The log end offsets of a stream's topic, for `shardlog status`, or why they are not known.

A topic that was deleted, recreated or is not authorised concerns its stream only; brokers that do
not answer are not asked again for other streams.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from connectors import kafka as kafka_client
from connectors.group.retry_shards import partition_of
from storage_core import InvalidRequestError, ShardlogError, StreamOrigin, describe_stream


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The log end offsets of a stream's topic.

    Attributes:
        ends: The end of each log, by partition.
        stable: The last stable offset of each, from which on an open transaction holds back what
            was written.
        unknown: Why the ends are not known, or cannot be compared with what is stored.
        starts: Where the logs begin of partitions that have no shard yet, if they were asked for.
    """

    ends: Mapping[int, int] = field(default_factory=dict)
    stable: Mapping[int, int] = field(default_factory=dict)
    unknown: str | None = None
    starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupView:
    """What Kafka says of a group: a copy of what the store knows, and who its members are.

    Attributes:
        offsets: Where the group stands.
        members: Its members; workers with partitions of their own (static mode) are none.
        is_known: Whether Kafka was asked, and has answered.
    """

    offsets: Mapping["kafka_client.Partition", int] = field(default_factory=dict)
    members: Sequence["kafka_client.GroupMember"] = ()
    is_known: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether Kafka knows nothing of the group."""
        return self.is_known and not self.offsets and not self.members

    def member_of(self, partition: "kafka_client.Partition") -> "kafka_client.GroupMember | None":
        """Return the member that a partition is assigned to."""
        return next((each for each in self.members if partition in each.partitions), None)


class Brokers:
    """Fetches log ends from Kafka, until it fails to answer once."""

    def __init__(self, bootstrap: str | None, settings: Mapping[str, str], wait_s: float) -> None:
        """Use these brokers, or none."""
        self._wait_s = wait_s
        self._settings = None if bootstrap is None else {**settings, "bootstrap.servers": bootstrap}
        self._admin: kafka_client.Admin | None = None
        self.failure: ShardlogError | None = None

    def log_ends(self, root: Path, name: str, *, of_all: bool = False) -> LogEnds:
        """Return the ends of a stream's partitions, as far as they are known.

        Args:
            root: The root.
            name: The stream.
            of_all: Also of partitions that have no shard yet.
        """
        if self._settings is None or self.failure is not None:
            return LogEnds()
        stream = describe_stream(root, name)
        return self.log_ends_of(stream.origin, stream.shards, of_all=of_all)

    def log_ends_of(
        self, origin: StreamOrigin | None, shards: Iterable[int], *, of_all: bool = False
    ) -> LogEnds:
        """Return the ends of these partitions of an origin, as far as they are known.

        With `of_all` also those of partitions that have no shard yet.
        """
        if self._settings is None or self.failure is not None or origin is None:
            return LogEnds()
        try:
            return self._fetched(self._connected(self._settings), origin, shards, of_all=of_all)
        except InvalidRequestError as error:
            return LogEnds(unknown=error.message)
        except ShardlogError as error:
            self.failure = error
            return LogEnds()

    def group(self, name: str, partitions: Iterable["kafka_client.Partition"]) -> GroupView:
        """Return what Kafka says of a group, as far as it is known."""
        if self._settings is None or self.failure is not None:
            return GroupView()
        try:
            admin = self._connected(self._settings)
            offsets = admin.ask_group_offsets(name, partitions)
            return GroupView(
                offsets(self._wait_s), admin.group_members(name, self._wait_s), is_known=True
            )
        except ShardlogError as error:
            self.failure = error
            return GroupView()

    def _fetched(
        self,
        admin: "kafka_client.Admin",
        origin: StreamOrigin,
        shards: Iterable[int],
        *,
        of_all: bool,
    ) -> LogEnds:
        topic = origin.topic
        topic_id = admin.ask_topic_ids([topic])(self._wait_s).get(topic)
        if topic_id is None:
            return LogEnds(unknown=f"the cluster has no topic {topic!r}: it was deleted")
        if isinstance(topic_id, InvalidRequestError):
            return LogEnds(unknown=topic_id.message)
        numbers = {number for number in shards if partition_of(number) is None}
        others: set[int] = set()
        if of_all:
            others = set(range(admin.partition_count(topic, self._wait_s))) - numbers
        partitions = [kafka_client.Partition(topic, number) for number in sorted(numbers | others)]
        # In this order: what is written in between is held back by nothing.
        ends = admin.log_ends(partitions, self._wait_s)
        stable = admin.log_ends(partitions, self._wait_s, is_stable=True)
        unstored = [partition for partition in partitions if partition.number in others]
        starts = admin.log_starts(unstored, self._wait_s) if unstored else {}
        unknown = None
        if topic_id != origin.topic_id:
            unknown = (
                f"topic {topic!r} was deleted and recreated; the stored rows are of the old one"
            )
        return LogEnds(
            {partition.number: end for partition, end in ends.items()},
            {partition.number: end for partition, end in stable.items()},
            unknown,
            {partition.number: start for partition, start in starts.items()},
        )

    def _connected(self, settings: Mapping[str, str]) -> "kafka_client.Admin":
        if self._admin is None:
            # Connected late: most calls of `status` name no brokers.
            self._admin = kafka_client.Admin(settings)
            self._admin.await_broker(self._wait_s)
        return self._admin
