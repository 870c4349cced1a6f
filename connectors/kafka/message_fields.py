"""How the fields of a message are reached, in Python."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message

from connectors.kafka.terms import Headers

Messages = list[Message]


class Fields(NamedTuple):
    """Accessors of a message, fast enough to be mapped over a million of them a second."""

    value: Callable[[Message], bytes | None]
    key: Callable[[Message], bytes | None]
    offset: Callable[[Message], int]
    partition: Callable[[Message], int]
    topic: Callable[[Message], str]
    timestamp: Callable[[Message], tuple[int, int]]
    headers: Callable[[Message], Headers | None]
    error: Callable[[Message], KafkaError | None]
    epoch: Callable[[Message], int | None]


_accessors: Any = Message
FIELDS: Final = Fields(
    _accessors.value,
    _accessors.key,
    _accessors.offset,
    _accessors.partition,
    _accessors.topic,
    _accessors.timestamp,
    _accessors.headers,
    _accessors.error,
    _accessors.leader_epoch,
)
