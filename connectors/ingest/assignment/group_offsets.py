"""The group's offsets, told to Kafka now and then for those who watch lag.

Nothing goes on from them: where a shard goes on is the shard's to say. Beside each lies whose
data stands behind it, so that a worker with another root notices. Each partition is told once it
is owned, though no record comes, or its lag would be what an earlier life of the group has left;
then whenever it has moved. What Kafka did not take is told again.
"""

from collections.abc import Mapping
from typing import Final

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.kafka import Consumer, Partition

_TELL_EVERY_S: Final = 1.0
# How long an answer is waited for before the next is asked for.
_ANSWER_MAX_S: Final = 10.0


class GroupOffsets:
    """What the group has been told. Belongs to the worker's thread."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._committed: dict[Partition, int] = {}
        self._due_s = 0.0
        self._answer_until_s: float | None = None

    def tell_if_due(self, writers: Mapping[Partition, PartitionWriter], now_s: float) -> None:
        """Tell the group without waiting for it, at most once a second."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + _TELL_EVERY_S
        self._hear()
        if self._answer_until_s is not None and now_s < self._answer_until_s:
            return
        if self._tell(writers, is_last=False):
            self._answer_until_s = now_s + _ANSWER_MAX_S

    def tell_last(self, writers: Mapping[Partition, PartitionWriter]) -> None:
        """Tell the group before partitions go, and wait for it."""
        self._due_s = 0.0
        self._hear()
        self._tell(writers, is_last=True)
        self._hear()

    def _hear(self) -> None:
        answer = self._consumer.take_group_answer()
        if answer is not None:
            self._committed.update(answer)
            self._answer_until_s = None

    def _tell(self, writers: Mapping[Partition, PartitionWriter], *, is_last: bool) -> bool:
        """Tell what the group does not know; return whether there was anything."""
        for gone in self._committed.keys() - writers.keys():
            # Others may tell something else before it comes again.
            del self._committed[gone]
        news = {
            partition: writer.group_place
            for partition, writer in writers.items()
            if self._committed.get(partition) != writer.next
        }
        if news:
            self._consumer.commit_group(news, is_last=is_last)
        return bool(news)
