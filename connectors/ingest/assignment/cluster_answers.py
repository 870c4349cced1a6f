"""What the cluster says of partitions whose shards are about to be opened.

A broker answers what is asked of it behind the fetch that waits there, half a second where nothing
comes, so 200 shards that ask one by one take a minute and a half, in which nothing is stored. Those
that are opened together are asked of together, and each has its answer for a few seconds.

An answer of before may be too old: whoever held the shard until now may have stored and committed
more. So it counts only where it raises no doubt, and is asked for again where it does. Belongs to
the worker's thread.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from connectors.ingest.assignment.lake_start import KafkaSide, kafka_side
from connectors.kafka import Consumer, Partition, Place
from storage_core import Clock, ShardlogError

_FRESH_S: Final = 5.0
# Of one question; a silent cluster is none that many shards wait for.
_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was said of a partition, and when."""

    watermarks: tuple[int, int]
    group_place: Place | None
    answered_s: float


class ClusterAnswers:
    """Asks of many partitions at once, or of one."""

    def __init__(self, consumer: Consumer, clock: Clock) -> None:
        """Know nothing yet."""
        self._consumer = consumer
        self._clock = clock
        self._answers: dict[Partition, _Answer] = {}
        self._not_before_s = float("-inf")

    def ask(self, partitions: Collection[Partition], *, is_anew: bool = False) -> None:
        """Ask of partitions that are opened next, where there are several without an answer.

        Where the cluster does not say at once, each partition asks for itself, whose fault it then
        is; for a while nothing is asked of several.

        Args:
            partitions: Which.
            is_anew: Whether what was said before does not count: others may have had them since.
        """
        now_s = self._clock.monotonic_s()
        if is_anew:
            for partition in partitions:
                self._answers.pop(partition, None)
        unknown = [at for at in partitions if self._fresh(at) is None]
        if len(unknown) <= 1 or now_s < self._not_before_s:
            return
        try:
            watermarks = self._consumer.watermarks_of(unknown, _WAIT_S)
            places = self._consumer.group_places(unknown, _WAIT_S)
        except ShardlogError:
            self._not_before_s = self._clock.monotonic_s() + _FRESH_S
            return
        answered_s = self._clock.monotonic_s()
        for partition, edges in watermarks.items():
            self._answers[partition] = _Answer(edges, places.get(partition), answered_s)

    def watermarks(self, partition: Partition, shard_next: int) -> tuple[int, int]:
        """Return where a partition begins and ends, whose shard stands there and is open.

        It is the last that is asked; an answer counts once. Who opens the shard again has learnt
        something since.

        Raises:
            BrokerUnavailableError: The cluster is silent.
        """
        answer = self._fresh(partition)
        self._answers.pop(partition, None)
        if answer is not None:
            low, end = answer.watermarks
            if low <= shard_next <= end:
                return low, end
        return self._consumer.watermarks(partition)

    def first_watermarks(self, partition: Partition) -> tuple[int, int]:
        """Return where a partition begins and ends that has no shard yet."""
        answer = self._fresh(partition)
        return self._consumer.watermarks(partition) if answer is None else answer.watermarks

    def side(self, partition: Partition) -> KafkaSide:
        """Return what it says of a partition whose shard is not open yet.

        Raises:
            BrokerUnavailableError: The cluster is silent.
        """
        answer = self._fresh(partition)
        if answer is not None:
            return kafka_side(answer.watermarks[0], answer.group_place)
        low, _ = self._consumer.watermarks(partition)
        return kafka_side(low, self._consumer.group_places([partition]).get(partition))

    def group_place(self, partition: Partition, shard_next: int) -> Place | None:
        """Return what the group has committed of a partition, None if it has nothing.

        Raises:
            BrokerUnavailableError: The cluster is silent.
        """
        answer = self._fresh(partition)
        if answer is not None:
            place = answer.group_place
            if place is None or place.offset <= shard_next:
                return place
        return self._consumer.group_places([partition]).get(partition)

    def _fresh(self, partition: Partition) -> _Answer | None:
        answer = self._answers.get(partition)
        is_fresh = answer and self._clock.monotonic_s() - answer.answered_s < _FRESH_S
        return answer if is_fresh else None
