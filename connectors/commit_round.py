"""A round: what was consumed of all partitions, made durable at once.

`commit_round` is the whole commit path of ingestion. It runs on a thread of its own, one round
at a time, while the next one is being consumed; it owns the feeds it is given until it returns.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from connectors.kafka_client import FIELDS, Messages, Partition
from connectors.mapping import map_records
from connectors.shard_feed import ShardFeed
from connectors.topic_identity import TopicIdentities
from storage_core import AppendReport, ShardPoisonedError


@dataclass(frozen=True, slots=True)
class RoundWork:
    """What is to be made durable.

    Attributes:
        messages: Records of any partitions, each partition's in order.
        positions: The consumer's next offset of each partition once all of `messages` are in;
            where it lies above the last record, control records were passed.
        feeds: The partitions owned. Records of others are dropped: their owner fetches them.
    """

    messages: Messages
    positions: Mapping[Partition, int]
    feeds: Mapping[Partition, ShardFeed]


@dataclass(slots=True)
class RoundReport:
    """What became of a round.

    Attributes:
        appended: Sums over all partitions.
        dead_letters: Records kept raw.
        moved: Partitions whose next offset moved.
        poisoned: Partitions whose durable write failed; the others are committed.
    """

    appended: AppendReport = field(default_factory=AppendReport)
    dead_letters: int = 0
    moved: list[Partition] = field(default_factory=list)
    poisoned: dict[Partition, ShardPoisonedError] = field(default_factory=dict)


def commit_round(work: RoundWork, identities: TopicIdentities, committers: Executor) -> RoundReport:
    """Make a round durable, exactly once.

    1. Ask the cluster for the ids of the round's topics; the answer comes beside step 2.
    2. Map: records become columns and dead letters, partition by partition.
    3. Compare the ids with those the streams were made from; nothing has been written yet.
    4. Append: per shard one WriteBatch of rows, dead letters and the next offset.
    5. Commit: sync the shards beside each other, publish their markers. Readable from here on.
    6. Acknowledge: the feeds move; the caller tells the group, for lag tools only.

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
    mapped = [
        (feed, map_records(messages, feed.rules), _last_epoch(messages))
        for feed, messages in _by_feed(work)
    ]  # 2
    compare_ids()  # 3
    appended: dict[Partition, int] = {}
    for feed, records, epoch in mapped:  # 4
        last = max(
            int(records.offsets[-1]) if len(records.offsets) else -1, *records.dead_letters, -1
        )
        next_offset = max(last + 1, work.positions.get(feed.partition, 0))
        with _noting_poison(feed, report):
            report.appended = report.appended.plus(feed.append(records, next_offset, epoch))
            report.dead_letters += len(records.dead_letters)
            feed.epoch = epoch
            appended[feed.partition] = next_offset
    for partition, position in _idle_advances(work, appended):
        with _noting_poison(work.feeds[partition], report):
            work.feeds[partition].advance(position)
            appended[partition] = position
    moved = [work.feeds[partition] for partition in appended]
    for feed, committed in _commit_beside_each_other(moved, committers, report):  # 5
        feed.next = committed  # 6
        report.moved.append(feed.partition)
    return report


def _by_feed(work: RoundWork) -> Iterator[tuple[ShardFeed, Messages]]:
    """Yield each feed with its messages, in their order."""
    messages = work.messages
    if not messages:
        return
    codes, partitions = _partition_codes(messages)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    chosen: Sequence[object] = messages
    if len(cuts):
        chosen = itemgetter(*order.tolist())(messages)
    for first, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(messages)], strict=True):
        feed = work.feeds.get(partitions[int(ordered[first])])
        if feed is not None:
            yield feed, _ascending(list(chosen[first:end]))  # type: ignore[arg-type]  # messages in, messages out


def _partition_codes(
    messages: Messages,
) -> tuple[npt.NDArray[np.int64], Mapping[int, Partition]]:
    """Return a small number for each message's partition, and what the numbers mean."""
    numbers = np.fromiter(map(FIELDS.partition, messages), np.int64, len(messages))
    names = list(map(FIELDS.topic, messages))
    topics = sorted(set(names))
    if len(topics) > 1:
        index = {topic: at for at, topic in enumerate(topics)}
        numbers += np.fromiter(map(index.__getitem__, names), np.int64, len(names)) << 32
    present = np.unique(numbers).tolist()
    return numbers, {code: Partition(topics[code >> 32], code & 0xFFFFFFFF) for code in present}


def _ascending(messages: Messages) -> Messages:
    """Return messages without those that were fetched again after going back."""
    offsets = np.fromiter(map(FIELDS.offset, messages), np.int64, len(messages))
    if (offsets[1:] > offsets[:-1]).all():
        return messages
    before = np.maximum.accumulate(offsets)[:-1]
    kept = np.concatenate(([True], offsets[1:] > before))
    return list(compress(messages, kept.tolist()))


def _last_epoch(messages: Messages) -> int | None:
    return FIELDS.epoch(messages[-1])


def _idle_advances(
    work: RoundWork, appended: Mapping[Partition, int]
) -> Iterator[tuple[Partition, int]]:
    """Yield partitions that moved without records."""
    for partition, position in work.positions.items():
        feed = work.feeds.get(partition)
        if feed is not None and partition not in appended and position > feed.next:
            yield partition, position


def _commit_beside_each_other(
    feeds: Sequence[ShardFeed], committers: Executor, report: RoundReport
) -> Iterator[tuple[ShardFeed, int]]:
    futures = [(feed, committers.submit(feed.commit)) for feed in feeds[1:]]
    for feed in feeds[:1]:
        with _noting_poison(feed, report):
            yield feed, feed.commit()
    for feed, future in futures:
        with _noting_poison(feed, report):
            yield feed, future.result()


@contextmanager
def _noting_poison(feed: ShardFeed, report: RoundReport) -> Iterator[None]:
    """Let the failure of one shard's disk be that shard's alone."""
    try:
        yield
    except ShardPoisonedError as error:
        report.poisoned[feed.partition] = error
