"""The rounds of a worker: what was gathered is made durable, one round at a time.

A round runs on a thread of its own, its syncs on some more, while the next one is fetched and
gathered. Whoever closes or moves a shard first waits for the round in flight, bounded: streams are
the round's for as long as it is under way, and the worker's between rounds. What a round's report
says of the partitions the worker acts on; it is told as soon as the round is over, and so is what
broke a round off.

Belongs to the worker's thread.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from time import perf_counter
from typing import Final

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.topic_identity import TopicIdentities
from connectors.ingest.commit_round import (
    PendingRecords,
    RoundInFlight,
    RoundReport,
    Writers,
    commit_round,
)
from connectors.ingest.fetch_policy import FetchPolicy
from connectors.ingest.pending_batch import PendingBatch
from connectors.kafka import Consumer, Partition
from storage_core import UnavailableError

_COMMITTERS: Final = 4


class Rounds:
    """Begins rounds, waits for them, and hands on what became of them."""

    def __init__(  # noqa: PLR0913 - what a round concerns
        self,
        consumer: Consumer,
        identities: TopicIdentities,
        pending: PendingBatch,
        fetch_policy: FetchPolicy,
        wait_s: float,
        concluded: Callable[[RoundReport], None],
    ) -> None:
        """Have none in flight.

        Args:
            consumer: Who says where its partitions stand.
            identities: Who says whether the topics are still the ones.
            pending: What the next round is of.
            fetch_policy: When it is due.
            wait_s: How long a round in flight may be waited for.
            concluded: Called with the report of each round that is over.
        """
        self._consumer = consumer
        self._identities = identities
        self._pending = pending
        self._fetch_policy = fetch_policy
        self._wait_s = wait_s
        self._concluded = concluded
        self._runner = ThreadPoolExecutor(1, "shardlog-round")
        self._committers = ThreadPoolExecutor(_COMMITTERS, "shardlog-commit")
        self.in_flight: RoundInFlight | None = None
        # Whether a round still hangs in a write at the end; it has shards open then.
        self.is_left_hanging = False

    def begin_if_due(self, writers: Mapping[Partition, PartitionWriter], now_s: float) -> None:
        """Begin a round of what was gathered, or an idle worker's; none is in flight."""
        is_look = self._fetch_policy.is_look_due(self._pending, now_s)
        if not writers or not (is_look or self._fetch_policy.is_due(self._pending, now_s)):
            return
        positions = self._consumer.positions(writers)
        if is_look:
            has_moved = any(place > writers[at].next for at, place in positions.items())
            if not self._fetch_policy.is_idle_round_due(now_s, has_moved=has_moved):
                return
        self._fetch_policy.begun(now_s)
        self._begin(writers, positions)

    def _begin(
        self, writers: Mapping[Partition, PartitionWriter], positions: Mapping[Partition, int]
    ) -> None:
        # What moves later on is none of the round's.
        held = dict(writers)
        outcome = self._runner.submit(
            _timed_round, self._pending.take(), positions, held, self._identities, self._committers
        )
        self.in_flight = RoundInFlight(outcome, held)

    def conclude_if_done(self) -> None:
        """Hand on what became of the round in flight, if it is over.

        Raises:
            ShardlogError: What broke it off that is no shard's own.
        """
        if self.in_flight is not None and self.in_flight.is_done():
            round_, self.in_flight = self.in_flight, None
            self._concluded(round_.acknowledge())

    def settle(self) -> None:
        """Wait for the round in flight.

        Raises:
            UnavailableError: It takes too long; its shards stay as they are, and ours.
        """
        if self.in_flight is not None and not self.in_flight.is_done(self._wait_s):
            message = (
                f"a round was not durable within {self._wait_s:g} s: a sync takes longer than that"
            )
            raise UnavailableError(message)
        self.conclude_if_done()

    def flush(self, writers: Mapping[Partition, PartitionWriter]) -> None:
        """Make durable what has been gathered, now.

        No positions are given: they count all that librdkafka has handed out, and inside one of
        its callbacks that may be more than `fetch` has returned yet.

        Raises:
            UnavailableError: It takes too long.
        """
        self.settle()
        if self._pending.count and writers:
            self._begin(writers, {})
            self.settle()

    def end(self, wait_s: float) -> None:
        """End the threads; a round that hangs is left to itself after a while.

        One that hangs holds locks of its shards, so that closing them would hang as well; the end
        of the process closes them, and whatever it wrote is at its own offsets.
        """
        is_idle = self.in_flight is None or self.in_flight.is_done(wait_s)
        for threads in (self._runner, self._committers):
            threads.shutdown(wait=is_idle, cancel_futures=True)
        self.is_left_hanging = not is_idle


def _timed_round(
    pending: PendingRecords,
    positions: Mapping[Partition, int],
    writers: Writers,
    identities: TopicIdentities,
    committers: Executor,
) -> RoundReport:
    """Make a round durable, and say how long that took."""
    began_s = perf_counter()
    report = commit_round(pending, positions, writers, identities, committers)
    report.took_s = perf_counter() - began_s
    return report
