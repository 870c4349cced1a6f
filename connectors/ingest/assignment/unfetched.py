"""Where partitions end that are held and not fetched: those that wait for their shard or a fault.

What Kafka says of an end comes with records, and of these none come. So the cluster is asked every
thirty seconds while there are any; where nobody has told yet where such a shard stands, the group's
offset says it, which is what lag tools go by too. Nobody waits for an answer: it is taken once it
has come. Belongs to the worker's thread.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from connectors.kafka import Partition
from storage_core import ShardlogError

ASK_EVERY_S: Final = 30.0

_Offsets = dict[Partition, int]
_Answer = Callable[[float], _Offsets]


class Offsets(Protocol):
    """Says where logs end and where the group stands, as `Admin` does."""

    def ask_log_ends(self, partitions: Iterable[Partition]) -> _Answer:
        """Ask; calling what is returned waits so long for the answer."""

    def ask_group_offsets(self, group: str, partitions: Iterable[Partition]) -> _Answer:
        """Ask; as with ends."""


@dataclass(frozen=True, slots=True)
class UnfetchedPartition:
    """How a partition stands that is held and not fetched.

    Attributes:
        partition: The partition.
        next: The offset below which everything is durable; None where nobody knows.
        end: The end of the log that is stored; None where nobody knows, or the log is another one.
    """

    partition: Partition
    next: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Offsets from the one to the other; None where that is not known."""
        return None if self.next is None or self.end is None else max(self.end - self.next, 0)


class UnfetchedEnds:
    """Asks for the ends of partitions that are held and not fetched."""

    def __init__(self, cluster: Offsets, group: str) -> None:
        """Know of none."""
        self._cluster = cluster
        self._group = group
        self._ends: _Offsets = {}
        self._group_offsets: _Offsets = {}
        # What is to come, and where it goes.
        self._answers: list[tuple[_Offsets, _Answer]] = []
        self._partitions: frozenset[Partition] = frozenset()
        self._requested_s = float("-inf")

    def tick(self, now_s: float, partitions: Collection[Partition]) -> None:
        """Ask, or take what was answered."""
        if not partitions:
            self._ends.clear()
            self._answers.clear()
            self._partitions = frozenset()
        elif now_s - self._requested_s >= ASK_EVERY_S or not self._partitions.issuperset(
            partitions
        ):
            self._partitions, self._requested_s = frozenset(partitions), now_s
            self._ask()
        else:
            self._answers = [answer for answer in self._answers if not _has_come(*answer)]

    def state(
        self, partition: Partition, next_: int | None, *, is_foreign: bool
    ) -> UnfetchedPartition:
        """Return how a partition stands, as far as it is known."""
        if next_ is None:
            next_ = self._group_offsets.get(partition)
        end = None if is_foreign else self._ends.get(partition)
        return UnfetchedPartition(partition, next_, end)

    def _ask(self) -> None:
        self._answers = []
        # Of a topic that is gone nobody says anything: it must not take the others' ends away.
        for topic in {partition.topic for partition in self._partitions}:
            of_topic = [partition for partition in self._partitions if partition.topic == topic]
            with suppress(ShardlogError):
                self._answers.append((self._ends, self._cluster.ask_log_ends(of_topic)))
        with suppress(ShardlogError):
            answer = self._cluster.ask_group_offsets(self._group, self._partitions)
            self._answers.append((self._group_offsets, answer))


def _has_come(into: _Offsets, answer: _Answer) -> bool:
    try:
        into.update(answer(0.0))
    except ShardlogError:
        return False
    return True
