"""Errors that Kafka reports of a partition: logged once in a while, judged when they are for good.

librdkafka goes on by itself after most errors, and after some it tries the same offset for ever.
Whatever it is, a partition never stands still without a line in the log.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from connectors.kafka import Partition, PartitionFault
from storage_core import CorruptionError, ForeignDataError, InvalidRequestError

_LOG_EVERY_S: Final = 10.0
_UNREADABLE_AFTER_S: Final = 10.0
_REFUSALS_MAX: Final = 1


class PartitionFaults:
    """Error events by partition. Belongs to the worker's thread."""

    def __init__(self, log: Any) -> None:  # noqa: ANN401 - a structlog logger has no better type
        self._log = log
        self._logged_s: dict[tuple[Partition, str], float] = {}
        self._unreadable_since: dict[Partition, tuple[int, float]] = {}
        self._refusals: Counter[Partition] = Counter()
        self._refused_above_since: dict[Partition, float] = {}

    def report(self, fault: PartitionFault, now_s: float) -> None:
        """Log an event, and raise when nothing will come after it.

        Raises:
            InvalidRequestError: We may not read the topic.
            CorruptionError: What lies at an offset has been unreadable for long.
        """
        if fault.is_forbidden:
            raise refusal_of(fault)
        topic, number = fault.partition
        key = (fault.partition, fault.text)
        if now_s - self._logged_s.get(key, float("-inf")) >= _LOG_EVERY_S:
            self._logged_s[key] = now_s
            self._log.warning(
                "Kafka reports", topic=topic, shard=number, offset=fault.offset, reason=fault.text
            )
        # NOTE: behind a damaged batch librdkafka (2.16) reports offsets that it read from the
        # damage; until the partition moves, the first one is where it stands.
        if fault.is_unreadable:
            self._unreadable_since.setdefault(fault.partition, (fault.offset, now_s))
        if fault.partition not in self._unreadable_since:
            return
        offset, since_s = self._unreadable_since[fault.partition]
        if now_s - since_s >= _UNREADABLE_AFTER_S:
            raise _unreadable(fault, offset)

    def judge_refusal(
        self, fault: PartitionFault, next_offset: int, now_s: float, *, is_same_place: bool
    ) -> None:
        """Count an offset that Kafka refuses though its log spans the one that comes next.

        An offset above the next one was read from a damaged batch, or fetched ahead before the log
        was cut: neither says that the next one is refused.

        Raises:
            CorruptionError: For long, offsets above the next one have been refused.
            ForeignDataError: It refuses the same place again.
        """
        partition = fault.partition
        if partition in self._unreadable_since:
            return
        if is_same_place and fault.offset > next_offset:
            since_s = self._refused_above_since.setdefault(partition, now_s)
            if now_s - since_s >= _UNREADABLE_AFTER_S:
                raise _unreadable(fault, next_offset)
            return
        self._refusals[partition] = self._refusals[partition] + 1 if is_same_place else 0
        if self._refusals[partition] > _REFUSALS_MAX:
            message = (
                "Kafka refuses the offset that comes next though its log spans it: the log was cut "
                "below what is stored and written anew; drop the stream to take the topic anew, or "
                "use another root"
            )
            raise ForeignDataError(message, stream=partition.topic, shard=partition.number)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Take partitions that moved for healthy."""
        if not (self._refusals or self._unreadable_since or self._refused_above_since):
            return
        for partition in partitions:
            self._refusals.pop(partition, None)
            self._unreadable_since.pop(partition, None)
            self._refused_above_since.pop(partition, None)


def refusal_of(fault: PartitionFault) -> InvalidRequestError:
    """Return the error for a topic that we may not read."""
    topic = fault.partition.topic
    message = f"Kafka does not let this group read topic {topic!r}: {fault.text}"
    return InvalidRequestError(message, stream=topic)


def _unreadable(fault: PartitionFault, offset: int) -> CorruptionError:
    topic, number = fault.partition
    message = (
        f"Kafka holds what cannot be read: {fault.text}; restore the partition from a replica, or "
        "remove the records and start with on_out_of_range=skip"
    )
    return CorruptionError(message, stream=topic, shard=number, start=offset, end=offset + 1)
