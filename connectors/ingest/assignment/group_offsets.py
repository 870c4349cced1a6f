"""Commits the group's offsets to Kafka, once a second, for those who watch lag.

Nothing goes on from them: where a shard goes on is the shard's to say. Beside each lies whose
data stands behind it, so that a worker with another root notices. Each partition is committed once
it is owned, though no record comes, or its lag would be what an earlier life of the group has left;
then whenever it has moved. What Kafka did not take is committed again.
"""

from collections.abc import Mapping
from typing import Final

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.kafka import Consumer, Partition

# How long an answer is waited for before the next is asked for.
_ANSWER_MAX_S: Final = 10.0


class GroupOffsets:
    """What the group has committed. Belongs to the worker's thread."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._committed: dict[Partition, int] = {}
        self._answer_until_s: float | None = None

    def commit(self, writers: Mapping[Partition, PartitionWriter], now_s: float) -> None:
        """Commit offsets that moved, without waiting for the answer."""
        self._take_answer()
        if self._answer_until_s is not None and now_s < self._answer_until_s:
            return
        if self._commit(writers, is_last=False):
            self._answer_until_s = now_s + _ANSWER_MAX_S

    def commit_last(self, writers: Mapping[Partition, PartitionWriter]) -> None:
        """Commit before partitions go; wait for the answer where it can come."""
        self._take_answer()
        self._commit(writers, is_last=True)
        self._take_answer()

    def _take_answer(self) -> None:
        answer = self._consumer.take_group_answer()
        if answer is not None:
            self._committed.update(answer)
            self._answer_until_s = None

    def _commit(self, writers: Mapping[Partition, PartitionWriter], *, is_last: bool) -> bool:
        """Commit what the group does not have; return whether there was anything."""
        for gone in self._committed.keys() - writers.keys():
            # Others may commit something else before it comes again.
            del self._committed[gone]
        moved = {
            partition: writer.group_place
            for partition, writer in writers.items()
            if self._committed.get(partition) != writer.next
        }
        if moved:
            self._consumer.commit_group(moved, is_last=is_last)
        return bool(moved)
