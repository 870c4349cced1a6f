"""What is asked of the store of a lake beside the worker's thread, before shards are opened.

A store that is silent takes its time-outs, and a shard of many ids takes seconds to begin, while
the worker goes on fetching what others have. A task touches no shard that is open here. Its process
ends with the worker: until options.json lists a shard, nothing of it counts.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from connectors.group.retry_shards import partition_of, retry_shard_of
from connectors.ingest.assignment.lake_start import (
    KafkaSide,
    begins_from_lake,
    is_alone,
    unreachable,
)
from storage_core import ShardLockedError, ShardlogError, UnavailableError, shard_progress
from storage_core.lake import LakeStarter, LakeTarget

if TYPE_CHECKING:
    from storage_core.lake import BegunShard, LakePosition

_THREAD_NAME: Final = "shardlog-lake-start"
# So many tasks ask at once; the next wait for them.
_TASKS_MAX: Final = 4
_slots: Final = threading.BoundedSemaphore(_TASKS_MAX)


class Starter(Protocol):
    """Looks shards up in their table, and begins them from it, as `LakeStarter` does."""

    def positions(
        self, root: Path, stream: str, shards: Sequence[int], target: LakeTarget
    ) -> "dict[int, LakePosition]":
        """Return where the table stands in those shards that it has."""

    def begin(
        self,
        root: Path,
        stream: str,
        shards: Sequence[int],
        target: LakeTarget,
        *,
        expire: bool = False,
    ) -> "dict[int, BegunShard]":
        """Begin shards."""


@dataclass(frozen=True, slots=True)
class LakeOrder:
    """Partitions of a topic that come.

    Attributes:
        root: The directory that holds the streams.
        topic: The topic, and the stream's name.
        target: Where its table is.
        sides: What Kafka says of each partition that comes.
        others: Further partitions of which it is to be known whether the table has them.
        is_to_skip: Whether offsets that nobody has are a gap, rather than a fault.
        expire: Whether what retention has taken by now is hidden in shards that begin.
    """

    root: Path
    topic: str
    target: LakeTarget
    sides: Mapping[int, KafkaSide]
    others: Collection[int] = ()
    is_to_skip: bool = False
    expire: bool = False


@dataclass(frozen=True, slots=True)
class LakeAnswer:
    """What came of an order.

    Attributes:
        in_lake: The shards that the table has.
        begun: The shards that began from it.
        faults: What keeps partitions from being opened.
        alone: The partitions that go on with the log that lies here, though another log publishes
            them, since neither the lake nor Kafka has all of its rows; and how far the table is.
    """

    in_lake: Collection[int]
    begun: "Mapping[int, BegunShard]"
    faults: Mapping[int, ShardlogError]
    alone: Mapping[int, int] = field(default_factory=dict)


class LakeTask:
    """An order that is carried out on a thread of its own."""

    def __init__(self, order: LakeOrder, carry_out: Callable[[LakeOrder], LakeAnswer]) -> None:
        """Begin to carry an order out."""
        self.order: Final = order
        self._carry_out = carry_out
        self._outcome: LakeAnswer | ShardlogError | None = None
        # A daemon: the end of a process does not wait for a store that hangs.
        self._thread = threading.Thread(target=self._run, name=_THREAD_NAME, daemon=True)
        self._thread.start()

    def is_over(self, wait_s: float = 0.0) -> bool:
        """Wait for the end for so long; tell whether it has come."""
        self._thread.join(max(0.0, wait_s))
        return not self._thread.is_alive()

    def answer(self) -> LakeAnswer:
        """Return what came of it, once it is over; a fault of the store is that of all partitions.

        Raises:
            ShardlogError: What kept it from that.
        """
        if self._outcome is None:
            message = "asking the store of the lake ended without an answer"
            raise UnavailableError(message, stream=self.order.topic)
        if isinstance(self._outcome, ShardlogError):
            raise self._outcome
        return self._outcome

    def _run(self) -> None:
        with _slots:
            try:
                self._outcome = self._carry_out(self.order)
            except ShardlogError as error:
                self._outcome = error.placed(self.order.topic)


def start_shards(order: LakeOrder) -> LakeAnswer:
    """Begin those shards from the lake that are to; the table is opened once to ask for all.

    Raises:
        UnavailableError: The store does not answer.
        ForeignDataError: The table is not the stream's.
        InvalidRequestError: The store refuses, or the table cannot be used as it is.
        CorruptionError: The table is damaged.
    """
    with LakeStarter() as starter:
        return started_by(starter, order)


def started_by(starter: Starter, order: LakeOrder) -> LakeAnswer:
    """Begin those shards from the lake that are to, by way of a process.

    Raises:
        ShardlogError: As `start_shards` does.
    """
    topic = order.topic
    faults: dict[int, ShardlogError] = {}
    positions = _positions(order, starter, {*order.sides, *order.others}, faults)
    # IMPORTANT: read last; a log that goes on meanwhile, in another process, is not behind then.
    progress = shard_progress(order.root, topic)
    local = {number: shard.committed for number, shard in progress.items()}
    wanted: list[int] = []
    alone: dict[int, int] = {}
    for number, side in order.sides.items():
        chosen = [
            (shard, positions[shard].published)
            for shard in (number, retry_shard_of(number))
            if begins_from_lake(positions.get(shard), local.get(shard))
            # Of a log that cannot be read, opening it tells.
            and not (shard in local and local[shard] is None)
        ]
        writers = [progress[at].owner for at, _ in chosen if at in progress]
        if any(writers):
            # What it goes on to store would be beneath the new log, and nothing could be begun.
            message = f"another writer holds the shard: {next(filter(None, writers))}"
            faults[number] = ShardLockedError(message, stream=topic, shard=number)
            continue
        if number in dict(chosen) and is_alone(positions[number], local.get(number), side):
            alone[number] = positions[number].published
            # Rows that were retried here are with those that their dead letters are of.
            chosen = [(at, end) for at, end in chosen if (local.get(at) or 0) < end]
        lost = [unreachable(end, side, (topic, number)) for at, end in chosen if at == number]
        if any(lost) and not order.is_to_skip:
            faults.update((number, error) for error in lost if error is not None)
            continue
        wanted += [shard for shard, _ in chosen]
    begun: dict[int, BegunShard] = {}
    for shard, outcome in _begin(order, starter, wanted).items():
        if isinstance(outcome, ShardlogError):
            faults[shard if (of := partition_of(shard)) is None else of] = outcome
        else:
            begun[shard] = outcome
    return LakeAnswer(positions.keys(), begun, faults, alone)


def _positions(
    order: LakeOrder, starter: Starter, numbers: Collection[int], faults: dict[int, ShardlogError]
) -> "Mapping[int, LakePosition]":
    """Ask of partitions; where that fails for a shard, of each by itself, whose fault it is."""
    shards = sorted({*numbers, *map(retry_shard_of, numbers)})
    try:
        return starter.positions(order.root, order.topic, shards, order.target)
    except ShardlogError as error:
        if error.shard is None:
            raise
        if len(numbers) == 1:
            faults.update(dict.fromkeys(numbers, error))
            return {}
    positions: dict[int, LakePosition] = {}
    for number in sorted(numbers):
        positions.update(_positions(order, starter, [number], faults))
    return positions


def _begin(
    order: LakeOrder, starter: Starter, shards: list[int]
) -> "Mapping[int, BegunShard | ShardlogError]":
    """Begin shards; where that fails for several, each by itself, whose fault it is then."""
    if not shards:
        return {}
    try:
        return starter.begin(order.root, order.topic, shards, order.target, expire=order.expire)
    except ShardlogError as error:
        if len(shards) == 1 or (error.retriable and error.shard is None):
            return dict.fromkeys(shards, error)
    outcomes: dict[int, BegunShard | ShardlogError] = {}
    for shard in shards:
        outcomes.update(_begin(order, starter, [shard]))
    return outcomes
