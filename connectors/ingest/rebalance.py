"""What the group gives and takes, inside librdkafka's callbacks.

Each first waits for the round in flight, since shards are opened and closed here. Belongs to the
worker's thread.
"""

from connectors.ingest.assignment.assignment import Assignment
from connectors.ingest.assignment.deleted_topics import DeletedTopics
from connectors.ingest.assignment.group_offsets import GroupOffsets
from connectors.ingest.lake.last_publish import LastPublish
from connectors.ingest.rounds import Rounds
from connectors.ingest.status.worker_state import LatestState
from connectors.kafka import Consumer, Partition


class Rebalance:
    """Takes the partitions that are assigned, gives back those that are revoked or lost."""

    def __init__(  # noqa: PLR0913 - what a rebalance concerns
        self,
        consumer: Consumer,
        assignment: Assignment,
        rounds: Rounds,
        group: GroupOffsets,
        deleted: DeletedTopics,
        last_publish: LastPublish,
        latest_state: LatestState,
    ) -> None:
        self._consumer = consumer
        self._assignment = assignment
        self._rounds = rounds
        self._group = group
        self._deleted = deleted
        self._last_publish = last_publish
        self._latest_state = latest_state
        # Whether partitions were given out since the start, or since the group took all away.
        self.has_joined = False
        self.is_leaving = False

    def assigned(self, partitions: list[Partition]) -> None:
        """Take them, those whose shard is not free unfetched; none of them when leaving."""
        if self.is_leaving:
            # They are revoked next; opening shards for that takes seconds.
            return
        with self._latest_state.opening():
            self._rounds.settle()
            self._deleted.held(partitions)
            self._assignment.take(partitions)
            self.has_joined = True

    def revoked(self, partitions: list[Partition]) -> None:
        """Make durable what was consumed of them, publish it, close them, give them back."""
        try:
            if not self._rounds.is_left_hanging:
                self._rounds.flush(self._assignment.writers)
                self._group.commit_last(self._assignment.writers)
                if not self.is_leaving:
                    self._publish(partitions)
                self._assignment.close(partitions)
        finally:
            self._consumer.unassign(partitions)

    def _publish(self, partitions: list[Partition]) -> None:
        writers = self._assignment.writers
        self._last_publish.publish({at: writers[at] for at in partitions if at in writers})

    def lost(self, partitions: list[Partition]) -> None:
        """Discard what is not durable of them; another process may own them by now."""
        # Until the group gives out partitions again, nothing is fetched.
        self.has_joined = False
        try:
            self._rounds.settle()
            self._assignment.close(partitions)
        finally:
            self._consumer.unassign(partitions)
