"""The worker's state, for whoever asks from another thread.

The worker's thread alone touches the consumer and what it holds. So it is asked, and answers
between two fetches with a frozen copy of its counters; a worker that nobody asks makes none. One
that does not answer in time hangs, or is busy with a disk: then its last state is all there is.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from connectors.group.pauses import Pause
from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.histograms import Histogram
from connectors.kafka import Partition
from storage_core import Clock, StreamStats


@dataclass(frozen=True, slots=True)
class LakeState:
    """How far a shard of a stream with a lake is published.

    Attributes:
        shard: The stream and the shard's number.
        published: The address below which the table has its rows; None where nobody has said it.
        unpublished: How many committed addresses are not published.
        age_s: How long ago the first of them was committed.
        has_other_owner: Whether another log publishes it, so that this one may not.
    """

    shard: Partition
    published: int | None
    unpublished: int
    age_s: float
    has_other_owner: bool = False


@dataclass(frozen=True, slots=True)
class LakeCounts:
    """What was published of a stream since the worker began.

    Attributes:
        rows: How many rows.
        bytes: How many bytes the files have.
        failures: How often it failed.
        begun_shards: How many shards began from its lake.
    """

    rows: int
    bytes: int
    failures: int
    begun_shards: int = 0


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition whose shard is open.

    Attributes:
        partition: The partition, whose number is the shard's.
        next: The offset below which everything is durable.
        end: The end of the partition as Kafka said it last; None where nobody knows it.
        stats: What the shard has counted since its birth.
        unsealed: How many offsets are in no part yet; None where they are to be in none.
    """

    partition: Partition
    next: int
    end: int | None
    stats: StreamStats
    unsealed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """The state of a worker.

    Attributes:
        taken_s: When it was taken, on the monotonic clock.
        shards: The partitions whose shards are open.
        waiting: How many partitions wait for their shard.
        quarantined: How many are quarantined.
        paused: The pauses of partitions that are held; one may be quarantined too.
        unfetched: The state of each partition that is held and not fetched.
        stable_offsets: Where the first open transaction of partitions begins, as far as is known.
        faults: The kind of each fault; a negative number of a partition stands for all of a topic.
        has_no_topic: Whether none of its topics is there.
        has_joined: Whether partitions were given out since the start.
        is_broker_away: Whether the broker does not answer.
        totals: What the worker counted since it began, by the names of `WorkerCounts`.
        dead_letters: How many of these became dead letters, by topic and word for the reason.
        commit_s: How long rounds took to be durable.
        lateness_s: How long after their timestamps records were durable.
        lakes: How far shards of streams with a lake are published.
        lake_counts: What was published of each stream.
        retention_s: How long Kafka keeps records of topics whose streams have one, where it says.
    """

    taken_s: float
    shards: tuple[PartitionState, ...]
    waiting: int
    quarantined: int
    paused: Mapping[Partition, Pause] = field(default_factory=dict)
    unfetched: tuple[UnfetchedPartition, ...] = ()
    stable_offsets: Mapping[Partition, int] = field(default_factory=dict)
    faults: Mapping[Partition, str] = field(default_factory=dict)
    has_no_topic: bool = False
    has_joined: bool
    is_broker_away: bool
    totals: Mapping[str, int]
    dead_letters: Mapping[tuple[str, str], int]
    commit_s: Histogram
    lateness_s: Histogram
    lakes: tuple[LakeState, ...] = ()
    lake_counts: Mapping[str, LakeCounts] = field(default_factory=dict)
    retention_s: Mapping[str, float] = field(default_factory=dict)


class LatestState:
    """Where the worker's thread leaves its state, and others ask for it."""

    def __init__(self, take: Callable[[float], WorkerState], clock: Clock) -> None:
        """Have none yet; `take` makes one, on the worker's thread."""
        self._take = take
        self._clock = clock
        self._alive_s = clock.monotonic_s()
        self._is_requested = False
        self._has_come = threading.Event()
        self._requesting = threading.Lock()
        self._last: WorkerState | None = None
        # Whether the loop is over, so that nothing is fetched any more.
        self.is_over = False
        # Whether partitions were given out whose shards are being opened.
        self.is_opening = False

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Open shards inside; no state can be taken meanwhile. The worker's thread."""
        self.is_opening = True
        try:
            yield
        finally:
            # What is known from before does not have them.
            self._last = None
            self.is_opening = False

    def alive(self) -> None:
        """Take note that the worker's thread goes on. Its own thread."""
        self._alive_s = self._clock.monotonic_s()

    def answer(self, now_s: float) -> None:
        """Take note of that, and answer whoever requested a state. The worker's thread."""
        self._alive_s = now_s
        if self._is_requested:
            self._last = self._take(now_s)
            self._is_requested = False
            self._has_come.set()

    @property
    def silent_s(self) -> float:
        """How long the worker's thread has not been heard of. Any thread."""
        return self._clock.monotonic_s() - self._alive_s

    def request(self, wait_s: float) -> WorkerState | None:
        """Return the state now; after so long the last that is known.

        Any thread; of several at once each waits for the one before.
        """
        with self._requesting:
            self._has_come.clear()
            self._is_requested = True
            self._has_come.wait(wait_s)
            return self._last
