"""A commit round: pending records of all partitions, made durable at once.

`commit_round` is the whole commit path of ingestion, one round at a time. It runs on the thread of
rounds while the worker's thread fetches the next one: both spend their time in libraries that let
go of the interpreter. It touches streams and its own report; the writers it reads stay put, since
only `RoundInFlight.acknowledge` moves them, on the worker's thread once the round is over.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.topic_identity import TopicIdentities
from connectors.ingest.mapping import ShardRecords, join_records
from connectors.kafka import Partition, Place
from storage_core import AppendReport, ShardlogError, ShardPoisonedError, UnavailableError

PendingRecords = MutableMapping[Partition, list[ShardRecords]]
Writers = Mapping[Partition, PartitionWriter]


@dataclass(frozen=True, slots=True)
class Written:
    """What was appended of a partition; it counts once it is durable."""

    partition: Partition
    epoch: int | None
    appended: AppendReport
    dead_letters: Mapping[int, bytes]
    timestamps: "pa.Array[Any]"


@dataclass(slots=True)
class RoundReport:
    """What became of a round.

    Attributes:
        records: How many were to be made durable.
        appended: Sums over the partitions that moved.
        dead_letters: Records kept raw, by partition and offset, of the partitions that moved.
        moved: Where the partitions whose records are durable go on.
        poisoned: Partitions whose durable write failed; the others are committed.
        delayed: Partitions whose rows are not written, or not durable yet; going back to their
            writer's `next` fetches them again, and makes them so.
        failed: Partitions that have a fault of another kind; nothing more is written of them.
        timestamps: Of the records that moved, a column a partition.
        took_s: How long it took.
    """

    records: int = 0
    appended: AppendReport = field(default_factory=AppendReport)
    dead_letters: dict[Partition, Mapping[int, bytes]] = field(default_factory=dict)
    moved: dict[Partition, Place] = field(default_factory=dict)
    poisoned: dict[Partition, ShardPoisonedError] = field(default_factory=dict)
    delayed: dict[Partition, UnavailableError] = field(default_factory=dict)
    failed: dict[Partition, ShardlogError] = field(default_factory=dict)
    timestamps: list["pa.Array[Any]"] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def discarded(self) -> int:
        """Records that are not known to be durable, or were in the round twice."""
        appended = self.appended
        return self.records - appended.appended - appended.duplicates - appended.dead_letters

    def add(self, written: Written, next_offset: int) -> None:
        """Count a partition whose records are durable."""
        self.moved[written.partition] = Place(next_offset, written.epoch)
        self.appended = self.appended.plus(written.appended)
        self.timestamps.append(written.timestamps)
        if written.appended.dead_letters:
            self.dead_letters[written.partition] = written.dead_letters

    def blame(self, partition: Partition, error: ShardlogError) -> None:
        """Take note of what became of a partition instead of moving."""
        if isinstance(error, ShardPoisonedError):
            self.poisoned[partition] = error
        elif isinstance(error, UnavailableError):
            self.delayed[partition] = error
        else:
            self.failed[partition] = error


class RoundInFlight:
    """A round on its thread. Belongs to the worker's thread."""

    def __init__(self, outcome: Future[RoundReport], writers: Writers) -> None:
        self._outcome = outcome
        self._writers = writers

    def is_done(self, wait_s: float = 0.0) -> bool:
        """Tell whether it is over, after waiting for it so long."""
        if self._outcome.done() or wait_s <= 0:
            # NOTE: `wait` takes tens of microseconds even for no time at all.
            return self._outcome.done()
        return not wait([self._outcome], wait_s).not_done

    def acknowledge(self) -> RoundReport:
        """Move the writers whose rows are durable (step 6); once it is done.

        A shard whose append or commit failed does not keep the others from moving.

        Raises:
            ShardlogError: What broke the round off that is no shard's own.
        """
        report = self._outcome.result()
        for partition, place in report.moved.items():
            self._writers[partition].move(place)
        return report


def commit_round(
    pending: PendingRecords,
    positions: Mapping[Partition, int],
    writers: Writers,
    identities: TopicIdentities,
    committers: Executor,
) -> RoundReport:
    """Make a round durable, exactly once.

    1. Ask the cluster for the ids of the round's topics; the answer comes beside step 2.
    2. Join what was mapped as it came into one batch a partition.
    3. Compare the ids with those the streams were made from; nothing has been written yet.
    4. Append: per shard one WriteBatch of rows, dead letters and the next offset.
    5. Commit: sync the shards beside each other, on threads of their own, and publish their
       markers, each as soon as it is appended, those with the fewest records first. Readable
       from here on.
    6. Acknowledge, once all are done, on the worker's thread: the writers move; the worker tells
       the group, for lag tools only.

    A topic that fails in 1 to 3 has nothing written: the caller goes back to its writers' `next`,
    or lets them be. A failure of a shard in 4 or 5 poisons that shard alone; reopened, it says how
    far it came. The others of the round go on in each case, and the report names them all. A crash
    anywhere leaves each shard with its rows and its next offset, which move as one.

    Args:
        pending: What was fetched and mapped, by partition, in order. Used up: a partition's
            parts are freed as they are joined.
        positions: The consumer's next offset of each partition once all that was gathered is in;
            where it lies above the last record, control records were passed.
        writers: The partitions held; they include those pending.
        identities: Whom the cluster is asked by.
        committers: The threads that sync.
    """
    report = RoundReport(count_records(pending))
    topics = {writer.partition.topic: writer.topic_id for writer in writers.values()}
    try:
        compare_ids = identities.ask(topics)  # 1
    except UnavailableError as silence:
        report.delayed.update(dict.fromkeys(writers, silence))
        return report
    joined = {at: join_records(pending.pop(at)) for at in list(pending)}  # 2
    wrong = compare_ids()  # 3
    for topic, error in wrong.items():
        # For a moment's silence only what has rows here is concerned.
        for partition in joined if isinstance(error, UnavailableError) else writers:
            if partition.topic == topic:
                report.blame(partition, error)
    for partition, position in positions.items():
        idle = writers.get(partition)
        if idle is not None and partition not in joined and position > idle.next:
            joined[partition] = idle.nothing_until(position)
    commits: dict[Future[int], Written] = {}
    for partition in sorted(joined, key=lambda at: joined[at].count):  # 4
        records = joined.pop(partition)
        if partition.topic in wrong:
            continue
        writer = writers[partition]
        with _blaming(partition, report):
            appended = writer.append(records, max(records.end, positions.get(partition, 0)))
            stamps = records.rows.column("timestamp")
            written = Written(partition, records.epoch, appended, records.dead_letters, stamps)
            commits[committers.submit(writer.commit)] = written  # 5
    for future, written in commits.items():
        with _blaming(written.partition, report):
            report.add(written, future.result())
    return report  # 6: acknowledge


def count_records(pending: PendingRecords) -> int:
    """Return how many records there are, dead letters among them."""
    return sum(part.count for parts in pending.values() for part in parts)


@contextmanager
def _blaming(partition: Partition, report: RoundReport) -> Iterator[None]:
    """Let the failure of one shard be that shard's alone."""
    try:
        yield
    except ShardlogError as error:
        report.blame(partition, error)
