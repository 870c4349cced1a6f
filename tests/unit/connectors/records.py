"""Records as Kafka hands them over, made by hand."""

from confluent_kafka import Message

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
