"""What Kafka's records and places are called here, and how a message's fields are reached."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message

Messages = list[Message]
Headers = list[tuple[str, bytes | None]]


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Place:
    """An offset of a partition, with what Kafka keeps beside it."""

    offset: int
    epoch: int | None = None
    metadata: str = ""


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
