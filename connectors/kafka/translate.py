"""Every exception of librdkafka leaves through `translated`, by one table."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.kafka.settings import likely_setting
from connectors.kafka.terms import Partition
from storage_core import (
    BrokerUnavailableError,
    ClientFailedError,
    ClosedError,
    InvalidRequestError,
    ShardlogError,
)

_UNAVAILABLE: Final = frozenset(
    (
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's own names begin so
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._UNKNOWN_BROKER,  # noqa: SLF001
        KafkaError._DESTROY,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._WAIT_CACHE,  # noqa: SLF001
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
    )
)
_OUT_OF_RANGE: Final = frozenset(
    (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)  # noqa: SLF001
)
_LOST_OWNERSHIP: Final = frozenset(
    (KafkaError._STATE, KafkaError._ASSIGNMENT_LOST, KafkaError._MAX_POLL_EXCEEDED)  # noqa: SLF001
)
_NO_TOPIC: Final = frozenset(
    (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001
)
_TRUNCATED: Final = frozenset((KafkaError._LOG_TRUNCATION,))  # noqa: SLF001
_UNREADABLE: Final = frozenset(
    (
        KafkaError._BAD_MSG,  # noqa: SLF001
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
        KafkaError.MSG_SIZE_TOO_LARGE,
    )
)
_FORBIDDEN: Final = frozenset(
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
)
# How librdkafka (2.16) words that another member has the same identity, by either protocol.
_OF_A_TWIN: Final = ("group.instance.id", "instance ID")
_NO_SETTING: Final = re.compile(r'No such configuration property: "([^"]+)"')
# Settings for which the broker takes no member; librdkafka asks again and again.
_REFUSED_JOIN: Final = {
    KafkaError.INVALID_SESSION_TIMEOUT: "session.timeout.ms",
    KafkaError.INVALID_GROUP_ID: "group.id",
}


@dataclass(frozen=True, slots=True)
class PartitionFault:
    """An error event of a partition, as the worker has to act on it.

    Attributes:
        partition: Where; its number is negative where all of a topic is meant.
        offset: The offset concerned, negative when there is none.
        is_refused_offset: Kafka has nothing at the offset, or something else than was read.
        is_unreadable: What lies there cannot be read; librdkafka tries again and again.
        is_forbidden: We may not read it.
        text: What librdkafka says.
    """

    partition: Partition
    offset: int
    is_refused_offset: bool
    is_unreadable: bool
    is_forbidden: bool
    text: str


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Let what librdkafka raises inside leave as an error of ours that says what was done."""
    try:
        yield
    except KafkaException as error:
        raise our_error(error, doing) from error
    except SystemError as error:
        # NOTE: an error that a callback leaves behind (2.16) is the cause of what CPython raises.
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise our_error(error.__cause__, doing) from error
    except (ValueError, TypeError) as error:
        message = f"{doing}: {error}"
        raise InvalidRequestError(message) from error
    except RuntimeError as error:
        # Of a client that is closed it raises this, and of nothing else.
        message = f"{doing}: {error}"
        raise ClosedError(message) from error


def our_error(error: KafkaException, doing: str) -> ShardlogError:
    """Return the error of ours that tells the caller what to do."""
    cause = error.args[0] if error.args else None
    code, text = (cause.code(), cause.str()) if isinstance(cause, KafkaError) else (None, error)
    if isinstance(cause, KafkaError) and is_fatal(cause):
        return _client_failed(doing, cause.str())
    if code in _UNAVAILABLE:
        return BrokerUnavailableError(f"{doing}: Kafka does not answer: {text}")
    return InvalidRequestError(f"{doing}: Kafka says: {text}{_meant(str(text))}")


def _meant(text: str) -> str:
    """Return which setting was likely meant, where librdkafka knows none of a name."""
    unknown = _NO_SETTING.search(text)
    likely = None if unknown is None else likely_setting(unknown[1])
    return "" if likely is None else f"; did you mean {likely}?"


def is_fatal(error: KafkaError) -> bool:
    """Tell whether the client can do no more.

    NOTE: a consumer's fatal event (2.16) has the code `_FATAL` and says of itself that it is not
    fatal; a producer's errors say so by `fatal()`. Both are looked at.
    """
    return error.fatal() or error.code() == KafkaError._FATAL  # noqa: SLF001 - its own name


def _client_failed(doing: str, text: str) -> ClientFailedError:
    remedy = "start the worker again"
    if any(words in text for words in _OF_A_TWIN):
        remedy = (
            "another worker has this kafka.group.instance.id, or one that was killed had it until "
            "its session ends: give each its own"
        )
    return ClientFailedError(f"{doing}: the Kafka client failed for good: {text}; {remedy}")


def fault_of(message: Message) -> PartitionFault | None:
    """Return what an error event says of a partition; None when it is about none.

    Raises:
        ShardlogError: The consumer cannot go on.
    """
    error: Any = message.error()
    if error is None:
        return None
    return fault_from(error, message.topic(), message.partition(), message.offset())


def fault_from(
    error: KafkaError, topic: str | None, number: int | None, offset: int | None
) -> PartitionFault | None:
    """Return what an error says of a partition; None when it is about none.

    Raises:
        ShardlogError: The consumer cannot go on.
    """
    if is_fatal(error):
        raise our_error(KafkaException(error), "consuming")
    code = error.code()
    if topic is not None and code in _FORBIDDEN:
        # Of one topic among several, it has no partition; nothing else would say so.
        number = -1 if number is None else number
    elif topic is None or number is None or number < 0:
        if code in _FORBIDDEN:
            # Of the group: nothing would ever come, and nothing else says so.
            raise our_error(KafkaException(error), "consuming")
        if code in _REFUSED_JOIN:
            doing = f"joining the group with this kafka.{_REFUSED_JOIN[code]}"
            raise our_error(KafkaException(error), doing)
        return None
    return PartitionFault(
        Partition(str(topic), int(number)),
        -1 if offset is None or offset < 0 else int(offset),
        code in _OUT_OF_RANGE or code in _TRUNCATED,
        code in _UNREADABLE,
        code in _FORBIDDEN,
        error.str(),
    )


def is_lost_ownership(error: KafkaException) -> bool:
    """Tell whether a call failed because the partition is not being fetched for us."""
    return error.args[0].code() in _LOST_OWNERSHIP


@contextmanager
def unless_lost() -> Iterator[None]:
    """Let calls for partitions that were taken away meanwhile pass as done."""
    try:
        yield
    except KafkaException as error:
        if not is_lost_ownership(error):
            raise


def code_of(error: ShardlogError) -> int | None:
    """Return librdkafka's number of what lies behind an error of ours."""
    cause = error.__cause__
    inner = cause.args[0] if isinstance(cause, KafkaException) and cause.args else None
    return int(inner.code()) if isinstance(inner, KafkaError) else None


def means_no_topic(error: ShardlogError) -> bool:
    """Tell whether an error says that a topic is not there."""
    return code_of(error) in _NO_TOPIC
