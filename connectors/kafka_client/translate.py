"""Every exception of librdkafka leaves through `translated`, by one table."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.kafka_client.terms import Partition
from storage_core import BrokerUnavailableError, InvalidRequestError, ShardlogError

_UNAVAILABLE: Final = frozenset(
    (
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's own names begin so
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._UNKNOWN_BROKER,  # noqa: SLF001
        KafkaError._DESTROY,  # noqa: SLF001
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
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


@dataclass(frozen=True, slots=True)
class PartitionFault:
    """An error event of a partition, as the worker has to act on it."""

    partition: Partition
    is_out_of_range: bool
    is_truncation: bool
    is_topic_gone: bool
    text: str


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Let what librdkafka raises inside leave as an error of ours that says what was done."""
    try:
        yield
    except KafkaException as error:
        raise our_error(error, doing) from error
    except (ValueError, TypeError) as error:
        message = f"{doing}: {error}"
        raise InvalidRequestError(message) from error


def our_error(error: KafkaException, doing: str) -> ShardlogError:
    """Return the error of ours that tells the caller what to do."""
    cause = error.args[0] if error.args else None
    code, text = (cause.code(), cause.str()) if isinstance(cause, KafkaError) else (None, error)
    if code in _UNAVAILABLE:
        return BrokerUnavailableError(f"{doing}: Kafka does not answer: {text}")
    return InvalidRequestError(f"{doing}: Kafka says: {text}")


def fault_of(message: Message) -> PartitionFault | None:
    """Return what an error event asks for; None when librdkafka helps itself.

    Raises:
        InvalidRequestError: The consumer cannot go on.
    """
    error: Any = message.error()
    if error is None:
        return None
    code = error.code()
    if error.fatal():
        raise our_error(KafkaException(error), "consuming")
    if message.topic() is None or message.partition() is None:
        return None
    fault = PartitionFault(
        Partition(str(message.topic()), int(message.partition() or 0)),
        code in _OUT_OF_RANGE,
        code in _TRUNCATED,
        code in _NO_TOPIC,
        error.str(),
    )
    matters = fault.is_out_of_range or fault.is_truncation or fault.is_topic_gone
    return fault if matters else None


@contextmanager
def unless_lost() -> Iterator[None]:
    """Let calls for partitions that were taken away meanwhile pass as done."""
    try:
        yield
    except KafkaException as error:
        if error.args[0].code() not in _LOST_OWNERSHIP:
            raise


def code_of(error: ShardlogError) -> int | None:
    """Return librdkafka's number of what lies behind an error of ours."""
    cause = error.__cause__
    inner = cause.args[0] if isinstance(cause, KafkaException) and cause.args else None
    return int(inner.code()) if isinstance(inner, KafkaError) else None


def means_no_topic(error: ShardlogError) -> bool:
    """Tell whether an error says that a topic is not there."""
    return code_of(error) in _NO_TOPIC
