"""A round: what was consumed of all partitions, made durable at once.

`commit_round` is the whole commit path of ingestion, one round at a time. It returns once the
syncs have begun, so that the next round is consumed while this one becomes durable; two threads
that both turn records into rows would only take the interpreter from each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from connectors.kafka_client import Partition
from connectors.mapping import ShardRecords, join_records
from connectors.shard_feed import ShardFeed
from connectors.topic_identity import TopicIdentities
from storage_core import AppendReport, ShardPoisonedError, UnavailableError


@dataclass(frozen=True, slots=True)
class RoundWork:
    """What is to be made durable.

    Attributes:
        records: What was consumed and mapped, by partition, in order.
        positions: The consumer's next offset of each partition once all of `records` are in;
            where it lies above the last record, control records were passed.
        feeds: The partitions owned; they include those of `records`.
    """

    records: Mapping[Partition, Sequence[ShardRecords]]
    positions: Mapping[Partition, int]
    feeds: Mapping[Partition, ShardFeed]


@dataclass(slots=True)
class RoundReport:
    """What became of a round.

    Attributes:
        appended: Sums over all partitions.
        dead_letters: Records kept raw, by partition and offset.
        moved: Partitions whose next offset moved.
        poisoned: Partitions whose durable write failed; the others are committed.
        delayed: Partitions whose rows are written and not durable yet; going back to their
            feed's `next` fetches them again, and makes them so.
    """

    appended: AppendReport = field(default_factory=AppendReport)
    dead_letters: dict[Partition, Mapping[int, bytes]] = field(default_factory=dict)
    moved: list[Partition] = field(default_factory=list)
    poisoned: dict[Partition, ShardPoisonedError] = field(default_factory=dict)
    delayed: dict[Partition, UnavailableError] = field(default_factory=dict)


class RoundInFlight:
    """A round whose syncs are under way. Belongs to the worker's thread."""

    def __init__(self, report: RoundReport, commits: Mapping[Future[int], ShardFeed]) -> None:
        """Take over the syncs."""
        self._report = report
        self._commits = commits

    def is_done(self, wait_s: float = 0.0) -> bool:
        """Tell whether all syncs are over, after waiting for them so long."""
        return not wait(self._commits, wait_s).not_done

    def acknowledge(self) -> RoundReport:
        """Move the feeds whose rows are durable (step 6); once it is done.

        A shard whose commit failed does not keep the others from moving.
        """
        for future, feed in self._commits.items():
            try:
                with _noting_poison(feed, self._report):
                    feed.next = future.result()
                    self._report.moved.append(feed.partition)
            except UnavailableError as error:
                self._report.delayed[feed.partition] = error
        return self._report


def commit_round(
    work: RoundWork, identities: TopicIdentities, committers: Executor
) -> RoundInFlight:
    """Make a round durable, exactly once.

    1. Ask the cluster for the ids of the round's topics; the answer comes beside step 2.
    2. Join what was mapped as it came into one batch a partition.
    3. Compare the ids with those the streams were made from; nothing has been written yet.
    4. Append: per shard one WriteBatch of rows, dead letters and the next offset.
    5. Commit: sync the shards beside each other, on threads of their own, and publish their
       markers. Readable from here on.
    6. Acknowledge, once they are done: the feeds move; the worker tells the group, for lag
       tools only.

    A failure in 1 to 3 changes nothing: the caller goes back to each feed's `next`. A failure
    of a shard in 4 or 5 poisons that shard alone; reopened, it says how far it came. A crash
    anywhere leaves each shard with its rows and its next offset, which move as one.

    Raises:
        BrokerUnavailableError: No answer about the topics in bounded time; go back and retry.
        ForeignDataError: A topic is another one; stop.
    """
    report = RoundReport()
    topics = {feed.partition.topic: feed.topic_id for feed in work.feeds.values()}
    compare_ids = identities.ask(topics)  # 1
    joined = {at: join_records(parts) for at, parts in work.records.items()}  # 2
    compare_ids()  # 3
    appended: dict[Partition, int] = {}
    for partition, records in joined.items():  # 4
        feed = work.feeds[partition]
        next_offset = max(records.end, work.positions.get(partition, 0))
        with _noting_poison(feed, report):
            appended_here = feed.append(records, next_offset)
            report.appended = report.appended.plus(appended_here)
            if appended_here.dead_letters:
                report.dead_letters[partition] = records.dead_letters
            appended[partition] = next_offset
    for partition, position in _idle_advances(work, appended):
        with _noting_poison(work.feeds[partition], report):
            work.feeds[partition].advance(position)
            appended[partition] = position
    moved = [work.feeds[partition] for partition in appended]
    commits = {committers.submit(feed.commit): feed for feed in moved}  # 5
    return RoundInFlight(report, commits)  # 6: acknowledge


def _idle_advances(
    work: RoundWork, appended: Mapping[Partition, int]
) -> Iterator[tuple[Partition, int]]:
    """Yield partitions that moved without records."""
    for partition, position in work.positions.items():
        feed = work.feeds.get(partition)
        if feed is not None and partition not in appended and position > feed.next:
            yield partition, position


@contextmanager
def _noting_poison(feed: ShardFeed, report: RoundReport) -> Iterator[None]:
    """Let the failure of one shard's disk be that shard's alone."""
    try:
        yield
    except ShardPoisonedError as error:
        report.poisoned[feed.partition] = error
