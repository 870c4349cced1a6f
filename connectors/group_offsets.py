"""The group's offsets, told to Kafka now and then for those who watch lag.

Nothing goes on from them: where a shard goes on is the shard's to say. Beside each lies whose
data stands behind it, so that a worker with another root notices.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from connectors.kafka_client import Consumer, Partition
from connectors.shard_feed import ShardFeed

_TELL_EVERY_S: Final = 1.0


class GroupOffsets:
    """What the group has not been told yet. Belongs to the worker's thread."""

    def __init__(self, consumer: Consumer) -> None:
        """Have nothing to tell."""
        self._consumer = consumer
        self._moved: set[Partition] = set()
        self._due_s = 0.0

    def note(self, moved: Iterable[Partition]) -> None:
        """Remember partitions that have moved."""
        self._moved.update(moved)

    def tell_if_due(self, feeds: Mapping[Partition, ShardFeed], now_s: float) -> None:
        """Tell the group without waiting for it, at most once a second."""
        if self._moved and now_s >= self._due_s:
            self._due_s = now_s + _TELL_EVERY_S
            self._tell(feeds, is_last=False)

    def tell_last(self, feeds: Mapping[Partition, ShardFeed]) -> None:
        """Tell the group before partitions go, and wait for it."""
        self._due_s = 0.0
        self._tell(feeds, is_last=True)

    def _tell(self, feeds: Mapping[Partition, ShardFeed], *, is_last: bool) -> None:
        places = {at: feeds[at].group_place for at in self._moved if at in feeds}
        self._moved.clear()
        if places:
            self._consumer.commit_group(places, is_last=is_last)
