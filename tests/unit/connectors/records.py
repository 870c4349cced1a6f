"""Records as Kafka hands them over, made by hand; and fetched columns as records again."""

from typing import Any, NamedTuple, cast

from confluent_kafka import KafkaError, Message

from connectors.ingest.mapping import map_partitions
from connectors.kafka import Fetched, Headers, Partition
from connectors.kafka.python_fetch import fetch_results_of
from connectors.settings.stream_settings import MappingRules

CREATE_TIME = 1


def record(offset, key=b"\x00\x00\x00\x07", value=b"v", **more):
    stamp = more.pop("timestamp", (CREATE_TIME, 1000 + offset))
    topic, partition = more.pop("topic", "orders"), more.pop("partition", 0)
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        timestamp=stamp,
        **more,
    )


def refusal(offset):
    """An error event: Kafka has nothing at this offset."""
    error = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE, "out of range")
    return Message(topic="orders", partition=0, offset=offset, error=error)


def damage(partition):
    """An error event: what lies in a partition cannot be read."""
    error = KafkaError(KafkaError._BAD_MSG, "bad checksum")
    return Message(topic="orders", partition=partition, offset=5, error=error)


def denial():
    """An error event: the group may not read the topic."""
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied")
    return Message(topic="orders", partition=0, error=error)


def denial_of_all():
    """An error event: the group may not read any of the topic."""
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied")
    return Message(topic="orders", partition=-1, error=error)


def news_of_no_partition():
    """An error event that concerns the consumer as a whole."""
    return Message(error=KafkaError(KafkaError.NETWORK_EXCEPTION, "gone"))


def fencing():
    """An error event: another consumer has taken this one's place."""
    text = "Static consumer fenced by other consumer with same group.instance.id"
    return Message(error=KafkaError(KafkaError._FATAL, text))


def refused_join():
    """An error event: the broker does not take a member with these settings."""
    return Message(error=KafkaError(KafkaError.INVALID_SESSION_TIMEOUT, "JoinGroup failed"))


class Plain(NamedTuple):
    """A record that was fetched; headers that cannot be read are `None` and misnamed."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    kind: int
    headers: Headers | None
    is_misnamed: bool


def plain(fetched: Fetched) -> list[Plain]:
    """Return what was fetched record by record, run by run."""
    count, column = len(fetched.offsets), cast("Any", fetched.headers)
    headers: list = [None] * count if column is None else column.to_pylist()
    values = zip(
        fetched.offsets.tolist(),
        fetched.keys.to_pylist(),
        fetched.values.to_pylist(),
        fetched.timestamps.tolist(),
        fetched.kinds.tolist(),
        [field and [(one["key"], one["value"]) for one in field] for field in headers],
        [False] * count if fetched.misnamed is None else fetched.misnamed.tolist(),
        strict=True,
    )
    fields = list(values)
    return [
        Plain(partition, *field)
        for partition, (start, end) in fetched.runs.items()
        for field in fields[start:end]
    ]


def fetched_of(messages, topic=None):
    """Return records of one call, none of them an error event, as they are fetched."""
    ((fetched, _),) = fetch_results_of(messages, topic)
    return fetched


def shard_records(messages, rules=MappingRules(), topic=None):  # noqa: B008 - it is frozen
    """Return what the worker makes of records of one call: each partition with its own."""
    fetched = fetched_of(messages, topic)
    return list(map_partitions(fetched, fetched.runs, rules))
