"""The shards of streams with a lake before they are opened: which of them begin from it.

A partition that comes may have been on another machine meanwhile, whose rows are in the lake. So
before its shard is opened the first time since

1. the table is asked how far it has the shards of all partitions of the topic that came, once;
2. those of which it knows more than the log that lies here, or whose log is another's, begin from
   it, their retry shards too. Where Kafka lacks what comes next nothing is done, and a log that
   has it goes on;
3. the others go on as they are.

The store is asked in a process beside the worker (lake_tasks.py): what is not done after a moment
is waited for as a shard that another process holds. A log that the group had last goes on also
where the store does not answer: nobody else has stored more. Belongs to the worker's thread.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from connectors.group.home_mark import HomeMark
from connectors.ingest.assignment.lake_start import KafkaSide
from connectors.ingest.lake.lake_tasks import LakeAnswer, LakeOrder, LakeTask, start_shards
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from connectors.settings.options import WorkerOptions
from storage_core import (
    Clock,
    ShardlogError,
    StreamDescription,
    UnavailableError,
    root_id,
    shard_progress,
)
from storage_core.lake import lake_target

if TYPE_CHECKING:
    from storage_core.lake import BegunShard

# How long partitions that come wait for the store, before others are fetched beside them.
_WAIT_S: Final = 2.0
_ALONE: Final = (
    "it has rows that neither the lake nor Kafka has; `shardlog lake publish --take-over` in this "
    "root publishes them"
)
# How long a store that did not answer is not asked again.
_PAUSE_S: Final = 2.0


class BeginningShardError(UnavailableError):
    """The shard waits for its lake, or is beginning from it."""


@dataclass(slots=True)
class _Topic:
    """What is known of a topic's shards.

    Attributes:
        coming: The partitions that came and are not settled.
        ready: Those whose shards are settled, which nobody has opened since.
        in_lake: The shards that the table has, as it said last.
        task: What is under way.
        asked_of: The partitions that it is for, less those that came again or went since.
        asked_s: When it began.
        faults: What keeps partitions from being opened, until that was said.
        pause_s: Until when faults count, and a store that did not answer is not asked.
    """

    coming: set[Partition] = field(default_factory=set)
    ready: set[Partition] = field(default_factory=set)
    in_lake: Collection[int] = ()
    task: LakeTask | None = None
    asked_of: set[Partition] = field(default_factory=set)
    asked_s: float = 0.0
    faults: dict[Partition, ShardlogError] = field(default_factory=dict)
    pause_s: float = float("-inf")


class LakeShards:
    """Begins shards from lakes, where that is due."""

    def __init__(
        self,
        options: WorkerOptions,
        counts: WorkerCounts,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
        start: Callable[[LakeOrder], LakeAnswer] = start_shards,
    ) -> None:
        """Know of no shards yet; `start` begins some from a lake, on another thread."""
        self._start = start
        self._options = options
        self._counts = counts
        self._clock = clock
        self._log = log
        self._topics: dict[str, _Topic] = {}
        self._settled: set[Partition] = set()
        self._wait_until_s = float("-inf")

    @property
    def is_under_way(self) -> bool:
        """Whether a store is being asked, or a shard begins."""
        tasks = (topic.task for topic in self._topics.values())
        return any(task is not None and not task.is_over() for task in tasks)

    def come(self, partitions: Collection[Partition]) -> None:
        """Take note of partitions that are assigned: others may have had them meanwhile."""
        self.go(partitions)
        self._wait_until_s = self._clock.monotonic_s() + _WAIT_S
        for partition in partitions:
            self._topics.setdefault(partition.topic, _Topic()).coming.add(partition)

    def go(self, partitions: Collection[Partition]) -> None:
        """Take note of partitions that are given back; one that begins just now is let be."""
        self._settled.difference_update(partitions)
        for partition in partitions:
            topic = self._topics.get(partition.topic)
            if topic is not None:
                topic.coming.discard(partition)
                topic.ready.discard(partition)
                topic.asked_of.discard(partition)
                topic.faults.pop(partition, None)

    def has(self, shard: Partition) -> bool:
        """Tell whether the table has a shard, as far as it was asked of it."""
        topic = self._topics.get(shard.topic)
        return topic is not None and shard.number in topic.in_lake

    def settle(
        self,
        partition: Partition,
        stream: StreamDescription,
        side_of: Callable[[Partition], KafkaSide],
        others: Collection[int] = (),
    ) -> None:
        """Have a partition's shard begin from the lake, if it is to, before it is opened.

        Args:
            partition: The partition.
            stream: Its stream.
            side_of: Returns what Kafka says of a partition.
            others: Partitions that did not come, of which `has` is to tell.

        Raises:
            BeginningShardError: It waits for that; to be tried again.
            UnavailableError: The store or the cluster does not answer; to be tried again.
            LostRangeError: Kafka has no longer what comes next.
            ForeignDataError: The table is another stream's, or of other settings.
            InvalidRequestError: The store refuses.
            CorruptionError: The table, or a file of it, is damaged or missing.
        """
        if stream.options.lake is None:
            return
        if partition in self._settled and partition.number in stream.shards:
            return
        topic = self._topics.setdefault(partition.topic, _Topic())
        if self._is_ready(topic, partition):
            return
        topic.coming.add(partition)
        now_s = self._clock.monotonic_s()
        if topic.task is None:
            if now_s >= topic.pause_s:
                topic.faults.clear()
            self._raise_fault(topic, partition)
            self._ask(topic, stream, side_of, others)
        self._take(topic, stream)
        if self._is_ready(topic, partition):
            return
        self._raise_fault(topic, partition)
        message = "the shard waits for its lake, from which it may begin"
        raise BeginningShardError(message, stream=partition.topic, shard=partition.number)

    def _raise_fault(self, topic: _Topic, partition: Partition) -> None:
        """Raise what keeps a partition from being opened, if anything does."""
        fault = topic.faults.get(partition)
        if fault is None:
            return
        if not fault.retriable:
            # Somebody may mend it at once: the next try asks anew.
            del topic.faults[partition]
        raise fault

    def _is_ready(self, topic: _Topic, partition: Partition) -> bool:
        if partition not in topic.ready:
            return False
        topic.ready.remove(partition)
        self._settled.add(partition)
        return True

    def _ask(
        self,
        topic: _Topic,
        stream: StreamDescription,
        side_of: Callable[[Partition], KafkaSide],
        others: Collection[int],
    ) -> None:
        """Ask the store of all partitions that came, beside this thread."""
        asked_of = {at for at in topic.coming if at not in topic.faults}
        sides = {at.number: side_of(at) for at in sorted(asked_of)}
        target = lake_target(str(stream.options.lake), self._options.lake.storage_options())
        is_to_skip = self._options.on_out_of_range == "skip"
        order = LakeOrder(
            self._options.root,
            stream.name,
            target,
            sides,
            others,
            is_to_skip,
            expire=self._options.expire_every_s > 0,
        )
        topic.asked_of, topic.asked_s = asked_of, self._clock.monotonic_s()
        topic.task = LakeTask(order, self._start)

    def _take(self, topic: _Topic, stream: StreamDescription) -> None:
        """Take what came of a task, if it is over by now or after the moment that one may wait."""
        task = topic.task
        if task is None or not task.is_over(self._wait_until_s - self._clock.monotonic_s()):
            return
        topic.task = None
        asked_of, topic.asked_of = topic.asked_of, set()
        try:
            answer = task.answer()
            topic.in_lake = answer.in_lake
            faults = {Partition(stream.name, at): error for at, error in answer.faults.items()}
            for number, published in answer.alone.items():
                self._log.warning(
                    "shard goes on though another log publishes it",
                    topic=stream.name,
                    shard=number,
                    published=published,
                    reason=_ALONE,
                )
            for begun in answer.begun.values():
                self._log_begun(stream.name, begun, self._clock.monotonic_s() - topic.asked_s)
        except ShardlogError as error:
            ours = self._left_by_us(stream, task.order.sides)
            faults = {at: error for at in asked_of if at.number not in ours}
            if asked_of - faults.keys():
                shards = sorted(at.number for at in asked_of - faults.keys())
                self._log.warning(
                    "lake not asked", topic=stream.name, shards=shards, reason=str(error)
                )
        settled = asked_of - faults.keys()
        topic.coming -= settled
        topic.ready |= settled
        topic.faults |= {at: faults[at] for at in asked_of & faults.keys()}
        if faults:
            topic.pause_s = self._clock.monotonic_s() + _PAUSE_S

    def _left_by_us(
        self, stream: StreamDescription, sides: Mapping[int, KafkaSide]
    ) -> Collection[int]:
        """Return the partitions whose logs here are the last that the group had."""
        ours = root_id(self._options.root)
        progress = shard_progress(self._options.root, stream.name)
        return {
            number
            for number, side in sides.items()
            if number in stream.lineages
            and side.home == HomeMark(ours, stream.lineages[number])
            and side.stored <= (progress[number].committed or 0)
        }

    def _log_begun(self, topic: str, begun: "BegunShard", took_s: float) -> None:
        self._counts.lake_begun_shards[topic] += 1
        self._log.info(
            "shard begins from the lake",
            topic=topic,
            shard=begun.shard,
            rows=begun.rows,
            files=begun.files,
            start=begun.start,
            end=begun.end,
            archived=begun.archived,
            took_s=round(took_s, 3),
        )
        if begun.damaged_runs or begun.without_run:
            self._log.warning(
                "heads runs damaged",
                topic=topic,
                shard=begun.shard,
                runs=list(begun.damaged_runs),
                without_run=[[gap.start, gap.end] for gap in begun.without_run],
            )
