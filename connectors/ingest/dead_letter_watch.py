"""Logs dead letters when they come, and stops a stream that gets nothing else.

Keys that do not fit the stream make dead letters of all its records, and nothing else would say
so: the offsets move, there is no lag and no error. So the first of a topic is logged at once, then
their number at a bounded pace; and a stream that has never stored a record is refused after so
many, since the setting is wrong rather than the records.

Belongs to the worker's thread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from connectors.dlq.record import advice_for, decode_dead_letter
from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.kafka import Partition
from storage_core import InvalidRequestError

LOG_EVERY_S: Final = 10.0


@dataclass(slots=True)
class _Topic:
    """Dead letters of a topic: in all, and since it was logged last; the latest of them."""

    total: int
    unlogged: int
    logged_s: float
    shard: int
    offset: int
    raw: bytes


class DeadLetterWatch:
    """Logs dead letters, topic by topic."""

    def __init__(self, only_max: int, log: Any) -> None:  # noqa: ANN401 - a structlog logger has no better type
        """Know of none.

        Args:
            only_max: How many a stream may get that has stored nothing; 0 for any number.
            log: Where it is logged.
        """
        self._only_max = only_max
        self._log = log
        self._topics: dict[str, _Topic] = {}

    def note(self, durable: Mapping[Partition, Mapping[int, bytes]], now_s: float) -> None:
        """Take note of dead letters that are durable; log a topic's first at once."""
        for partition, dead_letters in durable.items():
            if not dead_letters:
                continue
            offset = max(dead_letters)
            counts = self._topics.get(partition.topic)
            if counts is None:
                counts = _Topic(0, 0, now_s - LOG_EVERY_S, partition.number, offset, b"")
                self._topics[partition.topic] = counts
            counts.total += len(dead_letters)
            counts.unlogged += len(dead_letters)
            counts.shard, counts.offset, counts.raw = partition.number, offset, dead_letters[offset]
        self.tick(now_s)

    def tick(self, now_s: float) -> None:
        """Log topics that got dead letters, each at most every ten seconds."""
        for topic, counts in self._topics.items():
            if not counts.unlogged or now_s - counts.logged_s < LOG_EVERY_S:
                continue
            reason = decode_dead_letter(counts.raw).reason
            advice = advice_for(reason)
            self._log.warning(
                "dead letters",
                topic=topic,
                new=counts.unlogged,
                total=counts.total,
                shard=counts.shard,
                offset=counts.offset,
                reason=reason,
                **({} if advice is None else {"advice": advice}),
            )
            counts.unlogged, counts.logged_s = 0, now_s

    def refuse_topics_of_nothing_else(
        self, partitions: Iterable[Partition], writers: Mapping[Partition, PartitionWriter]
    ) -> None:
        """Refuse a topic whose shards here hold dead letters only, and many of them.

        Raises:
            InvalidRequestError: The stream was made with a setting that its records do not fit.
        """
        if not self._only_max:
            return
        for topic in sorted({partition.topic for partition in partitions}):
            all_stats = [
                writer.stream.stats() for part, writer in writers.items() if part.topic == topic
            ]
            dead = sum(stats.dead_letters for stats in all_stats)
            stored = sum(stats.records + stats.expired for stats in all_stats)
            if not stored and dead >= self._only_max:
                raise self._refusal(topic, dead)

    def _refusal(self, topic: str, dead: int) -> InvalidRequestError:
        reason = decode_dead_letter(self._topics[topic].raw).reason
        advice = advice_for(reason)
        message = (
            f"every record of topic {topic!r} so far became a dead letter, {dead} of them "
            f"({reason}): drop the stream (`shardlog drop`) and take it again with a setting that "
            f"fits{'' if advice is None else f', {advice}'}; dead_letters_only_max = 0 goes on as "
            "it is"
        )
        return InvalidRequestError(message, stream=topic)
