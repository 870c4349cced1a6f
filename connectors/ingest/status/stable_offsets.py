"""Where the first open transaction of each partition begins: its last stable offset.

The client keeps the ends of logs and not these, so the cluster is asked for them every ten seconds,
for as long as somebody asks for metrics. Nobody waits for an answer: it is taken once it has come.
Belongs to the worker's thread.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from connectors.kafka import Partition
from storage_core import ShardlogError

ASK_EVERY_S: Final = 10.0
# So long after a state was taken they are not asked for any more.
WANTED_FOR_S: Final = 120.0
# An answer that has not come by then is not waited for any more.
ANSWER_MAX_S: Final = 30.0


_Answer = Callable[[float], Mapping[Partition, int]]


class LogEnds(Protocol):
    """Says where logs end, as `Admin` does."""

    def ask_log_ends(self, partitions: Iterable[Partition], *, is_stable: bool = False) -> _Answer:
        """Ask; calling what is returned waits so long for the answer."""


class StableOffsets:
    """The last stable offsets of partitions, as the cluster said them last."""

    def __init__(self, cluster: LogEnds) -> None:
        self._cluster = cluster
        self._offsets: dict[Partition, int] = {}
        # What is to come, by topic.
        self._answers: dict[str, _Answer] = {}
        self._asked_s = float("-inf")
        self._wanted_s = float("-inf")

    def of(self, partitions: Collection[Partition], now_s: float) -> dict[Partition, int]:
        """Return those that are known, and take note that somebody wants them."""
        self._wanted_s = now_s
        return {
            partition: self._offsets[partition]
            for partition in partitions
            if partition in self._offsets
        }

    def tick(self, now_s: float, held: Collection[Partition]) -> None:
        """Ask for those of partitions that are held, or take what was answered."""
        for topic in list(self._answers):
            with suppress(ShardlogError):
                self._offsets.update(self._answers[topic](0.0))
                del self._answers[topic]
        if self._answers and now_s - self._asked_s < ANSWER_MAX_S:
            return
        is_wanted = now_s - self._wanted_s <= WANTED_FOR_S
        if now_s - self._asked_s >= ASK_EVERY_S and (is_wanted or self._answers):
            # What a silent cluster said long ago tells nothing.
            self._offsets = {
                partition: offset
                for partition, offset in self._offsets.items()
                if partition in held and partition.topic not in self._answers
            }
            self._answers = {}
            if is_wanted:
                self._ask(now_s, held)

    def _ask(self, now_s: float, held: Collection[Partition]) -> None:
        self._asked_s = now_s
        # Of a topic that is gone nobody says anything: it must not take the others' away.
        for topic in {partition.topic for partition in held}:
            of_topic = [partition for partition in held if partition.topic == topic]
            with suppress(ShardlogError):
                self._answers[topic] = self._cluster.ask_log_ends(of_topic, is_stable=True)
