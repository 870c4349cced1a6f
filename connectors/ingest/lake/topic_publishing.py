"""What is published of a topic at a time: all of its shards that have something due, in one order.

One order is one commit of the table, if it fits. It asks nothing of the store where no shard has
other parts, log or lake than at its last publish. What fails in a shard is that shard's, and the
others are published; what fails for all of them, as a store that does not answer, makes the topic
pause.

Any thread: that of a pass, or of the last publish. The process beside the worker does one order
after the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.group.partition_files import WHOLE_TOPIC
from connectors.ingest.lake.store_pauses import StorePauses
from connectors.kafka import Partition
from connectors.settings.lake_settings import LakeSettings
from storage_core import Clock, ClosedError, ShardlogError, Stream
from storage_core.lake import LakePublisher, PublishOrder, ShardPublished, lake_target

# Whether files may go is looked at so often while they grow old, and not more often than that.
_LOOKS_AT_FILES: Final = 10
_LOOK_EVERY_MIN_S: Final = 60.0
# The marks of a shard of which nothing was ever sealed.
_NO_PARTS: Final = (0, 0)

# What was published of the shards of one partition, or what kept them from it.
Outcome = Mapping[int, ShardPublished] | ShardlogError | OSError


@dataclass(frozen=True, slots=True)
class TopicPublished:
    """What came of a topic.

    Attributes:
        outcomes: What came of partitions; that of the whole topic is a failure of its table.
        is_whole: Whether nothing was left to do but what failed.
    """

    outcomes: tuple[tuple[Partition, Outcome], ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Done:
    """What is published of a shard.

    Attributes:
        lake: Where its table is.
        lineage: The lineage of its log.
        marks: The marks of its part list.
        done_s: When it was published, by a clock that runs on.
    """

    lake: str
    lineage: str
    marks: tuple[int, int]
    done_s: float = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Due:
    """A shard that has something to publish.

    Attributes:
        partition: The partition that it is of.
        stream: Its stream.
        lineage: The lineage of the log that it has now: another one may come in its place.
    """

    partition: Partition
    stream: Stream
    lineage: str


class TopicPublishing:
    """Publishes the shards of topics, and knows which have nothing new."""

    def __init__(self, root: Path, settings: LakeSettings, clock: Clock) -> None:
        """Start no process yet.

        Args:
            root: The directory that holds the streams.
            settings: How the stores are reached.
            clock: Time.
        """
        self._root = root
        self._settings = settings
        self._clock = clock
        self._pauses = StorePauses(clock)
        self._publisher = LakePublisher(clock)
        self._done: dict[Partition, _Done] = {}

    @property
    def deaths(self) -> int:
        """How often the process died."""
        return self._publisher.deaths

    @property
    def process_id(self) -> int | None:
        """The process; None where there is none."""
        return self._publisher.process_id

    def close(self) -> None:
        """End the process; what it had not committed is dropped."""
        self._publisher.close()

    def publish(self, topic: str, streams: Mapping[Partition, Stream]) -> TopicPublished:
        """Publish what is new of partitions' open shards.

        Args:
            topic: The topic.
            streams: Partitions of it and their streams, those that go first before others.

        Raises:
            ShardlogError: The stores' options cannot be read; the publisher was closed.
        """
        outcomes: list[tuple[Partition, Outcome]] = []
        is_whole = True
        for lake, due in self._due(topic, streams, outcomes).items():
            is_whole &= self._publish(topic, lake, due, outcomes)
        return TopicPublished(tuple(outcomes), is_whole)

    def _due(
        self,
        topic: str,
        streams: Mapping[Partition, Stream],
        outcomes: list[tuple[Partition, Outcome]],
    ) -> Mapping[str, dict[int, _Due]]:
        """Return the shards that have something new, by the lake that their streams know."""
        due: dict[str, dict[int, _Due]] = {}
        for partition, stream in streams.items():
            try:
                for number, marks in stream.part_marks().items():
                    shard = Partition(topic, number)
                    if not self._is_done(stream, shard, marks) and not self._pauses.has(shard):
                        of_lake = due.setdefault(str(stream.options.lake), {})
                        of_lake[number] = _Due(partition, stream, stream.lineage(number))
            except ClosedError:
                continue
            except ShardlogError as error:
                outcomes.append((partition, error))
        return due

    def _is_done(self, stream: Stream, shard: Partition, marks: tuple[int, int]) -> bool:
        """Tell whether a shard has nothing new, nor files that may be old enough to go by now."""
        done = self._done.get(shard)
        if done is None:
            return marks == _NO_PARTS
        now_s = self._clock.monotonic_s()
        if done != _Done(str(stream.options.lake), stream.lineage(shard.number), marks, now_s):
            return False
        keep_local = stream.options.keep_local
        if keep_local is None or marks == _NO_PARTS:
            return True
        every_s = max(_LOOK_EVERY_MIN_S, keep_local.total_seconds() / _LOOKS_AT_FILES)
        return now_s - done.done_s < every_s

    def _publish(
        self,
        topic: str,
        lake: str,
        due: Mapping[int, _Due],
        outcomes: list[tuple[Partition, Outcome]],
    ) -> bool:
        """Publish shards to one table; tell whether nothing was left to do but what failed."""
        target = lake_target(lake, self._settings.storage_options())
        try:
            answer = self._publisher.publish(PublishOrder(self._root, topic, tuple(due), target))
        except ClosedError:
            raise
        except ShardlogError as error:
            self._failed(topic, due, error, outcomes)
            return True
        for number, done in answer.published.items():
            shard = Partition(topic, number)
            self._pauses.succeeded(shard)
            if done.is_whole:
                marks, now_s = answer.part_marks[number], self._clock.monotonic_s()
                self._done[shard] = _Done(lake, due[number].lineage, marks, now_s)
            outcomes.append((due[number].partition, {number: done}))
        for number, reason in answer.errors.items():
            # Of one that was closed meanwhile, and may have begun anew, it says nothing.
            if _is_open(due[number].stream):
                self._pauses.failed(Partition(topic, number), reason)
                outcomes.append((due[number].partition, reason))
        if answer.fault is not None:
            self._failed(topic, due, answer.fault, outcomes)
            return True
        left = due.keys() - answer.published.keys() - answer.errors.keys()
        whole = {number for number, done in answer.published.items() if done.is_whole}
        return not left and answer.published.keys() <= whole | answer.errors.keys()

    def _failed(
        self,
        topic: str,
        due: Mapping[int, _Due],
        error: ShardlogError,
        outcomes: list[tuple[Partition, Outcome]],
    ) -> None:
        """Take note of what failed for all shards, if any of them is open still."""
        if any(_is_open(one.stream) for one in due.values()):
            place = Partition(topic, WHOLE_TOPIC if error.shard is None else error.shard)
            self._pauses.failed(place, error)
            outcomes.append((place, error))


def _is_open(stream: Stream) -> bool:
    try:
        stream.committed()
    except ClosedError:
        return False
    except ShardlogError:
        return True
    return True
