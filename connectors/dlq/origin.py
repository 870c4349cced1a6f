"""Where a forwarded record comes from and why, as headers behind its own.

    shardlog.origin.topic_id        the topic's id: one made anew under its name has another
    shardlog.origin.timestamp       its timestamp and timestamp type, as "1700000000000 0"
    shardlog.dead_letter.reason     the stable word for the reason
    __connect.errors.topic          as Kafka Connect has them, all of them text: the origin,
    __connect.errors.partition
    __connect.errors.offset
    __connect.errors.connector.name the worker's group
    __connect.errors.task.id        the partition again: it is what one task is to Connect
    __connect.errors.stage          by the word, in Connect's words
    __connect.errors.class.name     shardlog
    __connect.errors.exception.class.name
    __connect.errors.exception.message  the reason

They stand last, all of them and in this order, so that what stands before them is the record's own,
byte for byte, also where it has headers of these names from an earlier way through such a topic.
Connect's stack trace is left out: there is none.
"""

from dataclasses import dataclass
from typing import Final

from connectors.dlq.record import DeadLetter
from connectors.kafka import Headers

_CONNECT: Final = "__connect.errors."
_NAMES: Final = (
    "shardlog.origin.topic_id",
    "shardlog.origin.timestamp",
    "shardlog.dead_letter.reason",
    f"{_CONNECT}topic",
    f"{_CONNECT}partition",
    f"{_CONNECT}offset",
    f"{_CONNECT}connector.name",
    f"{_CONNECT}task.id",
    f"{_CONNECT}stage",
    f"{_CONNECT}class.name",
    f"{_CONNECT}exception.class.name",
    f"{_CONNECT}exception.message",
)
_STAGES: Final = {
    "key": "KEY_CONVERTER",
    "headers": "HEADER_CONVERTER",
    "mapping": "TRANSFORMATION",
    "other": "TRANSFORMATION",
}
_STAGE_OF_VALUES: Final = "VALUE_CONVERTER"
_CLASS: Final = "shardlog"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a forwarded record comes from, and why it was forwarded.

    Attributes:
        topic: Its topic.
        partition: The partition's number.
        offset: Its offset there.
        topic_id: The topic's id.
        timestamp: Its timestamp; a Kafka client that is given 0 takes its own clock's.
        timestamp_type: What that is, in Java's numbers.
        word: The stable word for the reason.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str
    timestamp: int
    timestamp_type: int
    word: str


def with_origin(dead_letter: DeadLetter, word: str, topic_id: str, group: str) -> Headers:
    """Return a record's headers with where it comes from behind them."""
    values = (
        topic_id,
        f"{dead_letter.timestamp} {dead_letter.timestamp_type}",
        word,
        dead_letter.topic,
        str(dead_letter.partition),
        str(dead_letter.offset),
        group,
        str(dead_letter.partition),
        _STAGES.get(word, _STAGE_OF_VALUES),
        _CLASS,
        f"{_CLASS}.{word}",
        dead_letter.reason,
    )
    appended = [(name, value.encode()) for name, value in zip(_NAMES, values, strict=True)]
    return [*(dead_letter.headers or ()), *appended]


def split_origin(headers: Headers | None) -> tuple[Headers, Origin] | None:
    """Return a record's own headers and its origin; None where no forwarder wrote one."""
    headers = headers or []
    own, origin = headers[: -len(_NAMES)], headers[-len(_NAMES) :]
    if tuple(name for name, _ in origin) != _NAMES:
        return None
    try:
        topic_id, stamp, word, topic, partition, offset = (
            (value or b"").decode() for _, value in origin[:6]
        )
        timestamp, kind = map(int, stamp.split(" "))
        return own, Origin(topic, int(partition), int(offset), topic_id, timestamp, kind, word)
    except ValueError:
        return None
