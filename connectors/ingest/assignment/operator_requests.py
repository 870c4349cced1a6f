"""What operators ask of a worker: partitions to pause, to resume, to try again now.

They leave files under the root (connectors/group/); whether any came or went costs the worker one
call each time it looks. Belongs to the worker's thread, and to the time between rounds.
"""

from pathlib import Path

from connectors.group.pauses import PauseWatch
from connectors.group.retry_requests import RetryRequests
from connectors.ingest.assignment.assignment import Assignment
from connectors.ingest.assignment.group_offsets import GroupOffsets
from connectors.ingest.assignment.quarantine import Quarantine
from storage_core import Clock


class OperatorRequests:
    """Does what operators ask."""

    def __init__(  # noqa: PLR0913 - what a request concerns
        self,
        root: Path,
        pauses: PauseWatch,
        assignment: Assignment,
        quarantine: Quarantine,
        group: GroupOffsets,
        clock: Clock,
    ) -> None:
        self._pauses = pauses
        self._retries = RetryRequests(root)
        self._assignment = assignment
        self._quarantine = quarantine
        self._group = group
        self._clock = clock
        self._applied_version = 0

    def keep_room(self) -> None:
        """Make directories before the disk is full; see to it that the notes are right."""
        self._retries.prepare()
        self._quarantine.keep_noted(self._assignment.writers.keys())

    def apply(self) -> None:
        """Look at what is asked, and do it."""
        now_ns = self._clock.now_ns()
        self._pauses.look(now_ns)
        if self._pauses.version != self._applied_version:
            self._applied_version = self._pauses.version
            self._apply_pauses()
        for partition in self._retries.taken(self._quarantine.partitions, now_ns):
            self._assignment.try_now(partition)

    def _apply_pauses(self) -> None:
        before = dict(self._assignment.paused)
        wanted = self._pauses.among(self._assignment.held)
        resumed = [partition for partition in before if partition not in wanted]
        paused = {at: pause for at, pause in wanted.items() if at not in before}
        if paused:
            # For lag tools: nothing is committed of them for as long as they are paused.
            self._group.commit(self._assignment.writers, self._clock.monotonic_s())
            self._assignment.pause(paused)
        self._assignment.resume(resumed)
