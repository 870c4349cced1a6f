"""Partitions a worker has quarantined: why, and when each is tried again.

A fault of one partition or topic is that one's alone. It is told once, noted under the root for
other processes (quarantine_notes.py), tried again after 5 s and then twice as long each time, up
to five minutes, and counts for the exit code for as long as it lasts. Foreign data is tried again
only once its stream was moved away or made anew: a log that was cut looks whole as soon as it has
grown past what is stored, and waiting would turn a fault that is seen into one that is not.

What is quarantined and what stops the worker, `on_fault` says by kind; the kinds are those of the
errors. Belongs to the worker's thread.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from connectors.group.quarantine_notes import (
    WHOLE_TOPIC,
    QuarantineNote,
    QuarantineNotes,
)
from connectors.kafka import Partition
from connectors.settings.options import FaultKind, FaultSettings
from storage_core import (
    Clock,
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)

TRY_AFTER_S: Final = 5.0
TRY_AFTER_MAX_S: Final = 300.0
_DOUBLINGS_MAX: Final = 16
_NOTHING: Final = object()

_KINDS: Final[tuple[tuple[type[ShardlogError], FaultKind], ...]] = (
    (InvalidRequestError, "refused"),
    (UnavailableError, "unavailable"),
    (ForeignDataError, "foreign"),
    (LostRangeError, "out_of_range"),
    (CorruptionError, "damage"),
    (ShardPoisonedError, "write_failed"),
)


@dataclass(slots=True)
class _Fault:
    """Why a partition is quarantined, when it is tried again, and the stream it lasts with."""

    error: ShardlogError
    since_ms: int
    tried_ns: int
    next_try_s: float
    bound_to: object


class Quarantine:
    """What is quarantined, oldest first."""

    def __init__(
        self,
        settings: FaultSettings,
        notes: QuarantineNotes,
        stream_of: Callable[[str], object],
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Set nothing aside; `stream_of` gives a value that changes with a topic's stream."""
        self._settings = settings
        self._notes = notes
        self._stream_of = stream_of
        self._clock = clock
        self._log = log
        self._faults: dict[Partition, _Fault] = {}
        self._failures: Counter[Partition] = Counter()
        # Of which the disk has no note, or an empty one.
        self._unnoted: set[Partition] = set()

    @property
    def partitions(self) -> Collection[Partition]:
        """What is quarantined."""
        return self._faults.keys()

    @property
    def kinds(self) -> dict[Partition, FaultKind]:
        """What is quarantined, with the kind of its fault."""
        kinds = {at: kind_of(fault.error) for at, fault in self._faults.items()}
        return {at: kind for at, kind in kinds.items() if kind is not None}

    @property
    def oldest(self) -> ShardlogError | None:
        """The error of the fault that has lasted longest."""
        return next((fault.error for fault in self._faults.values()), None)

    def fault_of_all(self, topics: Collection[str]) -> ShardlogError | None:
        """Return the oldest error where faults concern all there is: partitions, or these topics.

        Before partitions are given out, what was refused as a whole topic says nothing of others.
        """
        refused = {at.topic for at in self._faults if at.number == WHOLE_TOPIC}
        has_partitions = any(at.number != WHOLE_TOPIC for at in self._faults)
        is_all = has_partitions or (bool(topics) and refused.issuperset(topics))
        return self.oldest if is_all else None

    def add(
        self,
        partitions: Collection[Partition],
        error: ShardlogError,
        *,
        is_for_good: bool = False,
        tried_ns: int | None = None,
    ) -> None:
        """Quarantine partitions that one error concerns, or put off those quarantined already.

        Args:
            partitions: Those it concerns.
            error: The error.
            is_for_good: Only a stream moved away or made anew mends it, as is so of foreign data.
            tried_ns: The wall time before which nobody else could mend it; None for now.

        Raises:
            ShardlogError: The error itself, where the settings have its kind stop the worker, or
                where it is of none.
        """
        kind = kind_of(error)
        if kind is None or self._settings.stops(kind):
            raise error
        tried_ns = self._clock.now_ns() if tried_ns is None else tried_ns
        self._tell(partitions, error, kind)
        for partition in partitions:
            self._failures[partition] += 1
            doublings = min(self._failures[partition] - 1, _DOUBLINGS_MAX)
            after_s = min(TRY_AFTER_S * 2**doublings, TRY_AFTER_MAX_S)
            next_try_s = self._clock.monotonic_s() + after_s
            is_bound = is_for_good or isinstance(error, ForeignDataError)
            bound_to = self._stream_of(partition.topic) if is_bound else _NOTHING
            # It keeps its place among the others: the oldest one tells how the worker ends.
            since_ms = self._since_ms(partition, error)
            self._faults[partition] = _Fault(error, since_ms, tried_ns, next_try_s, bound_to)
            # Each time: somebody may have taken the note for settled.
            self._note(partition)

    def due(self, now_s: float, paused: Collection[Partition] = ()) -> Partition | None:
        """Return one that is to be tried again and is not paused, None if there is none."""
        for partition, fault in self._faults.items():
            if now_s < fault.next_try_s or partition.number == WHOLE_TOPIC or partition in paused:
                continue
            is_bound = fault.bound_to is not _NOTHING
            if is_bound and self._stream_of(partition.topic) == fault.bound_to:
                fault.next_try_s = now_s + TRY_AFTER_S
                continue
            return partition
        return None

    def hasten(self, partition: Partition) -> None:
        """Have one tried again now, whatever its fault is bound to."""
        fault = self._faults[partition]
        fault.next_try_s, fault.bound_to = float("-inf"), _NOTHING

    def put_off(self, partition: Partition, now_s: float) -> None:
        """Try one again later that could not be tried at all."""
        self._faults[partition].next_try_s = now_s + TRY_AFTER_S

    def of_topic(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic that are quarantined."""
        return [at for at in self._faults if at.topic == topic and at.number != WHOLE_TOPIC]

    def healed(self, partition: Partition) -> None:
        """Take note that a partition's shard is open."""
        for place in (partition, Partition(partition.topic, WHOLE_TOPIC)):
            self._faults.pop(place, None)
            self._unnoted.discard(place)
            self._notes.remove(place)

    def moved(self, partitions: Iterable[Partition]) -> None:
        """Take partitions that moved for healthy: their next fault is their first."""
        if self._failures:
            for partition in partitions:
                self._failures.pop(partition, None)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Leave partitions to others; what is noted of them stays until one opens their shards."""
        for partition in partitions:
            self._faults.pop(partition, None)
            self._unnoted.discard(partition)
            self._failures.pop(partition, None)

    def keep_noted(self, opened: Collection[Partition]) -> None:
        """Leave the notes that the disk has not taken yet, where it does by now.

        Those on what is open here go: a worker that the group took it from may not have known yet,
        and have noted that it cannot have it.
        """
        for partition in self._notes.partitions().intersection(opened):
            self._notes.remove(partition)
        self._notes.prepare()
        for partition in list(self._unnoted):
            self._note(partition)

    def note_again(self, partition: Partition) -> None:
        """Leave the note on what is quarantined again, where somebody has taken it for settled."""
        if partition in self._faults and not self._notes.has(partition):
            self._note(partition)

    def leave_topics_but(self, consumes: Callable[[str], bool]) -> None:
        """Take the notes on whole topics away that nobody here consumes any more.

        No shard of such a topic may be there, whose opening would do it. Where another worker
        consumes it, that one leaves the note again.
        """
        for note in self._notes.read():
            if note.shard == WHOLE_TOPIC and not consumes(note.stream):
                self._notes.remove(note.partition)

    def _note(self, partition: Partition) -> None:
        fault = self._faults[partition]
        kind = kind_of(fault.error)
        if kind is None:
            return
        note = QuarantineNote(*partition, fault.since_ms, kind, str(fault.error))
        refusal = self._notes.write(note, fault.tried_ns)
        if refusal is None:
            self._unnoted.discard(partition)
            return
        if not self._unnoted:
            reason = refusal.strerror or str(refusal)
            self._log.warning("quarantine not noted", topic=partition.topic, reason=reason)
        self._unnoted.add(partition)

    def _since_ms(self, partition: Partition, error: ShardlogError) -> int:
        fault = self._faults.get(partition)
        if fault is not None and type(fault.error) is type(error):
            return fault.since_ms
        return self._clock.now_ns() // 10**6

    def _tell(
        self, partitions: Collection[Partition], error: ShardlogError, kind: FaultKind
    ) -> None:
        """Log what is new."""
        faulty = {partition for partition in partitions if partition in self._faults}
        fresh = [partition for partition in partitions if partition not in faulty]
        changed = [
            partition
            for partition in faulty
            if type(self._faults[partition].error) is not type(error)
        ]
        reported = sorted([*fresh, *changed])
        for topic in dict.fromkeys(partition.topic for partition in reported):
            shards = [partition.number for partition in reported if partition.topic == topic]
            where = {} if shards == [WHOLE_TOPIC] else {"shards": shards}
            self._log.error("quarantined", topic=topic, **where, kind=kind, reason=str(error))


def is_of_topic(error: ShardlogError) -> bool:
    """Tell whether a fault concerns all partitions of its topic alike."""
    return error.stream is not None and error.shard is None and not error.retriable


def kind_of(error: ShardlogError) -> FaultKind | None:
    """Return which kind of fault of a partition an error is, None if it is the worker's own."""
    for of_kind, kind in _KINDS:
        if isinstance(error, of_kind):
            return kind
    return None
