"""What the outcome of a commit round does to its partitions.

Those that moved are healthy. A shard whose durable write failed is closed and opened again, a few
times in a row; one with another fault is quarantined; one that was not committed in time is fetched
again from where its shard stands. Belongs to the worker's thread, between rounds.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from connectors.ingest.assignment.assignment import Assignment
from connectors.ingest.assignment.partition_faults import PartitionFaults
from connectors.ingest.commit_round import RoundReport
from connectors.ingest.dead_letter_watch import DeadLetterWatch
from connectors.ingest.status.broker_watch import BrokerWatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from storage_core import Clock, InvalidRequestError, UnavailableError

_REOPENS_MAX: Final = 5


class RoundResults:
    """Acts on the reports of commit rounds."""

    def __init__(  # noqa: PLR0913 - what a round's outcome concerns
        self,
        assignment: Assignment,
        faults: PartitionFaults,
        dead_letters: DeadLetterWatch,
        dead_letters_came: Callable[[], object],
        counts: WorkerCounts,
        broker: BrokerWatch,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Act on none yet; `dead_letters_came` is called after rounds that had any."""
        self._assignment = assignment
        self._faults = faults
        self._dead_letters = dead_letters
        self._dead_letters_came = dead_letters_came
        self._counts = counts
        self._broker = broker
        self._clock = clock
        self._log = log
        # A worker that stops neither reopens a shard nor judges a stream by its dead letters.
        self.is_stopping = False

    def take(self, report: RoundReport) -> None:
        """Take over what a round has moved; go back where it failed.

        Raises:
            ShardlogError: A fault that is to stop the worker.
        """
        self._counts.add(report, self._clock)
        self._faults.forget(report.moved)
        self._assignment.moved(report.moved)
        for partition, poison in report.poisoned.items():
            reopens = self._counts.reopened(partition)
            if reopens > _REOPENS_MAX or self.is_stopping:
                self._assignment.quarantine([partition], poison)
            else:
                self._assignment.suspend(partition, poison, reopens)
        for error in dict.fromkeys(report.failed.values()):
            concerned = [at for at, fault in report.failed.items() if fault is error]
            self._assignment.quarantine(concerned, error)
        if report.delayed:
            self._go_back(report.delayed)
        if report.dead_letters:
            self._judge_dead_letters(report.dead_letters)

    def _judge_dead_letters(self, dead_letters: Mapping[Partition, Mapping[int, bytes]]) -> None:
        """Log them; quarantine a stream that gets nothing else."""
        writers = self._assignment.writers
        self._dead_letters.note(dead_letters, self._clock.monotonic_s())
        self._dead_letters_came()
        if self.is_stopping:
            return
        try:
            self._dead_letters.refuse_topics_of_nothing_else(dead_letters, writers)
        except InvalidRequestError as error:
            concerned = [partition for partition in writers if partition.topic == error.stream]
            self._assignment.quarantine(concerned, error, is_for_good=True)

    def _go_back(self, delayed: Mapping[Partition, UnavailableError]) -> None:
        """Discard what is not durable of partitions and fetch it again."""
        if not self._broker.is_away:
            # Of a broker that is away, its watch reports.
            reason, *_ = delayed.values()
            self._log.warning("commit round dropped, fetching again", reason=str(reason))
        self._counts.commit_rounds_dropped += 1
        self._assignment.go_back(delayed)
