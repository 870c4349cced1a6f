"""Records as Kafka hands them over, made by hand."""

from confluent_kafka import KafkaError, Message

from connectors.ingest.mapping import by_partition, map_partitions
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


def shard_records(messages, rules=MappingRules(), topic=None):  # noqa: B008 - it is frozen
    """Return what the worker makes of records of one call: each partition with its own."""
    return list(map_partitions(by_partition(messages, topic), rules))
