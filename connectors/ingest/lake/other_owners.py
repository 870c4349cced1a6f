"""Partitions that are ours while another log publishes their shards: they are taken anew.

Kafka gives a partition to one worker of a group, whose log is to be the one that publishes it.
The table may name another log as owner all the same: that of a worker which woke when it had lost
the partition, or of a root that was told to take over. What is stored here would never be published
then. So the shard is closed, and begins from the lake as if the partition came.

Not in static mode: nobody says there whose a partition is, and two workers of two roots would take
it from each other for ever. Belongs to the worker's thread.
"""

from typing import Any, Final

from connectors.ingest.assignment.assignment import Assignment
from connectors.kafka import Partition

_STATIC: Final = (
    "another log publishes it; in static mode nobody says which of the two is to: publish from its "
    "root, name this root another lake, or restart the worker to begin from the lake"
)
_SO_OFTEN: Final = (
    "another log publishes it again and again; two groups that store a topic need a lake each"
)


class OtherOwners:
    """Takes partitions anew whose shards another log publishes."""

    def __init__(
        self,
        assignment: Assignment,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
        *,
        is_static: bool,
    ) -> None:
        """Know of none."""
        self._assignment = assignment
        self._log = log
        self._is_static = is_static
        self._refused: set[Partition] = set()
        self._reported: set[Partition] = set()

    def refused(self, partition: Partition) -> None:
        """Take note that a shard of a partition, or its retry shard, was refused by the table."""
        self._refused.add(partition)

    def take_anew(self) -> None:
        """Take those anew that were refused since, and are fetched still. Between two rounds."""
        refused, self._refused = self._refused, set()
        for partition in sorted(refused.intersection(self._assignment.writers)):
            where = {"topic": partition.topic, "shard": partition.number}
            if not self._is_static and self._assignment.take_anew(partition):
                self._reported.discard(partition)
                reason = "another log publishes it"
                self._log.warning("partition taken anew", **where, reason=reason)
            elif partition not in self._reported:
                self._reported.add(partition)
                reason = _STATIC if self._is_static else _SO_OFTEN
                self._log.warning("partition not taken anew", **where, reason=reason)
