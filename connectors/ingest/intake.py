"""Takes what a fetch brought: records into the pending batch, faults to their partitions.

IMPORTANT: first the records, then the fault behind them. Those before a fault of their partition
Kafka may not have any more; those behind it stem from before whatever the fault made the worker do.

A touched partition is left out of every result from the first on, and sought behind the last: what
comes behind records that were left out would make a hole. Belongs to the worker's thread.
"""

from connectors.group.quarantine_notes import WHOLE_TOPIC
from connectors.ingest.assignment.assignment import Assignment
from connectors.ingest.assignment.partition_faults import PartitionFaults, refusal_of
from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.rounds import Rounds
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.values.value_schemas import ValueSchemas
from connectors.kafka import Fetched, FetchResults, Partition, PartitionFault
from storage_core import ShardlogError, UnavailableError


class Intake:
    """Where fetched records and faults go."""

    def __init__(  # noqa: PLR0913 - what a fetched record concerns
        self,
        assignment: Assignment,
        pending: PendingBatch,
        schemas: ValueSchemas,
        rounds: Rounds,
        faults: PartitionFaults,
        counts: WorkerCounts,
    ) -> None:
        self._assignment = assignment
        self._pending = pending
        self._schemas = schemas
        self._rounds = rounds
        self._faults = faults
        self._counts = counts

    def take(self, results: FetchResults, now_s: float) -> None:
        """Keep records for the next round, and act on the faults between them.

        Raises:
            ShardlogError: A fault that is to stop the worker.
        """
        left_out: set[Partition] = set()
        for fetched, fault in results:
            left_out |= self._keep(fetched, now_s)
            if fault is not None:
                self.act_on(fault, now_s)
        self._assignment.fetch_again(left_out)
        self._schemas.hold()

    def _keep(self, fetched: Fetched, now_s: float) -> set[Partition]:
        """Keep records but for those of touched partitions, which are returned.

        Those that have to wait for their schemas are left out too; `hold` has them fetched again.
        """
        self._counts.received += fetched.count
        touched = self._assignment.touched_of(fetched)
        if touched:
            # A round that fails now touches more of them.
            self._rounds.settle()
            touched = self._assignment.touched_of(fetched)
            untouched = fetched.without(touched)
            self._counts.discard(fetched.count - untouched.count)
            fetched = untouched
        admitted = 0
        for part, framed in self._schemas.admit(fetched, self._assignment.writers):
            self._pending.add(part, self._assignment.writers, now_s, framed)
            admitted += part.count
        self._counts.discard(fetched.count - admitted)
        return touched

    def act_on(self, fault: PartitionFault, now_s: float) -> None:
        """Log what Kafka reports of a partition; quarantine the partition if it cannot go on."""
        if fault.partition.number == WHOLE_TOPIC:
            self._assignment.quarantine_topic(fault.partition.topic, refusal_of(fault))
            return
        if fault.partition not in self._assignment.writers:
            # Nothing is fetched of it, and why that is has been logged.
            return
        try:
            self._judge(fault, now_s)
        except UnavailableError:
            raise
        except ShardlogError as error:
            self._rounds.flush(self._assignment.writers)
            self._assignment.quarantine([fault.partition], error)

    def _judge(self, fault: PartitionFault, now_s: float) -> None:
        """Log a fault; where Kafka refuses the partition's offset, find out where it goes on.

        Raises:
            ShardlogError: The partition cannot go on.
            UnavailableError: The worker cannot.
        """
        self._faults.report(fault, now_s)
        if not fault.is_refused_offset:
            return
        self._rounds.flush(self._assignment.writers)
        # Waiting for the round may have shown that its disk failed; then it is being reopened.
        is_same_place = self._assignment.retake(fault.partition)
        if is_same_place is not None:
            next_offset = self._assignment.writers[fault.partition].next
            self._faults.judge_refusal(fault, next_offset, now_s, is_same_place=is_same_place)
