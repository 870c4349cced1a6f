"""A round: what was consumed of all partitions, made durable at once.

`commit_round` is the whole commit path of ingestion, one round at a time. It returns once the
syncs have begun, so that the next round is consumed while this one becomes durable; two threads
that both turn records into rows would only take the interpreter from each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from connectors.ingest.mapping import ShardRecords, join_records
from connectors.ingest.shard_feed import ShardFeed
from connectors.ingest.topic_identity import TopicIdentities
from connectors.kafka_client import Partition
from storage_core import AppendReport, ShardlogError, ShardPoisonedError, UnavailableError

Gathered = Mapping[Partition, Sequence[ShardRecords]]
Feeds = Mapping[Partition, ShardFeed]


@dataclass(slots=True)
class RoundReport:
    """What became of a round.

    Attributes:
        records: How many were to be made durable.
        written: What became of each partition's records; they count once they are durable.
        appended: Sums over the partitions that moved.
        dead_letters: Records kept raw, by partition and offset.
        moved: Partitions whose next offset moved.
        poisoned: Partitions whose durable write failed; the others are committed.
        delayed: Partitions whose rows are not written, or not durable yet; going back to their
            feed's `next` fetches them again, and makes them so.
        failed: Partitions that have a fault of another kind; nothing more is written of them.
    """

    records: int = 0
    written: dict[Partition, AppendReport] = field(default_factory=dict)
    appended: AppendReport = field(default_factory=AppendReport)
    dead_letters: dict[Partition, Mapping[int, bytes]] = field(default_factory=dict)
    moved: list[Partition] = field(default_factory=list)
    poisoned: dict[Partition, ShardPoisonedError] = field(default_factory=dict)
    delayed: dict[Partition, UnavailableError] = field(default_factory=dict)
    failed: dict[Partition, ShardlogError] = field(default_factory=dict)

    @property
    def let_go(self) -> int:
        """Records that are not known to be durable, or were in the round twice."""
        kept = self.appended
        return self.records - kept.appended - kept.duplicates - kept.dead_letters

    def acknowledge(self, partition: Partition) -> None:
        """Count a partition whose records are durable."""
        self.moved.append(partition)
        self.appended = self.appended.plus(self.written.get(partition, AppendReport()))

    def blame(self, partition: Partition, error: ShardlogError) -> None:
        """Take note of what became of a partition instead of moving."""
        self.dead_letters.pop(partition, None)
        if isinstance(error, ShardPoisonedError):
            self.poisoned[partition] = error
        elif isinstance(error, UnavailableError):
            self.delayed[partition] = error
        else:
            self.failed[partition] = error


class RoundInFlight:
    """A round whose syncs are under way. Belongs to the worker's thread."""

    def __init__(self, report: RoundReport, commits: Mapping[Future[int], ShardFeed]) -> None:
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
            with _blaming(feed, self._report):
                feed.next = future.result()
                self._report.acknowledge(feed.partition)
        return self._report


def commit_round(
    gathered: Gathered,
    positions: Mapping[Partition, int],
    feeds: Feeds,
    identities: TopicIdentities,
    committers: Executor,
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

    A topic that fails in 1 to 3 has nothing written: the caller goes back to its feeds' `next`,
    or lets them be. A failure of a shard in 4 or 5 poisons that shard alone; reopened, it says how
    far it came. The others of the round go on in each case, and the report names them all. A crash
    anywhere leaves each shard with its rows and its next offset, which move as one.

    Args:
        gathered: What was consumed and mapped, by partition, in order.
        positions: The consumer's next offset of each partition once all that was gathered is in;
            where it lies above the last record, control records were passed.
        feeds: The partitions held; they include those gathered.
        identities: Whom the cluster is asked by.
        committers: The threads that sync.
    """
    report = RoundReport(count_records(gathered))
    topics = {feed.partition.topic: feed.topic_id for feed in feeds.values()}
    compare_ids = identities.ask(topics)  # 1
    joined = {at: join_records(parts) for at, parts in gathered.items()}  # 2
    wrong = compare_ids()  # 3
    for topic, error in wrong.items():
        # For a moment's silence only what has rows here is concerned.
        for partition in gathered if isinstance(error, UnavailableError) else feeds:
            if partition.topic == topic:
                report.blame(partition, error)
    appended: dict[Partition, int] = {}
    for partition, records in joined.items():  # 4
        if partition.topic in wrong:
            continue
        feed = feeds[partition]
        next_offset = max(records.end, positions.get(partition, 0))
        with _blaming(feed, report):
            appended_here = feed.append(records, next_offset)
            report.written[partition] = appended_here
            if appended_here.dead_letters:
                report.dead_letters[partition] = records.dead_letters
            appended[partition] = next_offset
    for partition, position in positions.items():
        idle = feeds.get(partition)
        if idle is None or partition in gathered or partition.topic in wrong:
            continue
        if position > idle.next:
            with _blaming(idle, report):
                idle.advance(position)
                appended[partition] = position
    commits = {committers.submit(feeds[at].commit): feeds[at] for at in appended}  # 5
    return RoundInFlight(report, commits)  # 6: acknowledge


def count_records(gathered: Gathered) -> int:
    """Return how many records there are, dead letters among them."""
    return sum(part.count for parts in gathered.values() for part in parts)


@contextmanager
def _blaming(feed: ShardFeed, report: RoundReport) -> Iterator[None]:
    """Let the failure of one shard be that shard's alone."""
    try:
        yield
    except ShardlogError as error:
        report.blame(feed.partition, error)
