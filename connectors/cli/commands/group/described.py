"""What is known of each partition: from the store first, then from Kafka.

What the store knows is read first, what Kafka says afterwards, or a worker that goes on would be
taken for a log that was cut. Without brokers, or where they do not answer, their columns are empty,
and partitions that have no shard yet are not known.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from connectors.cli.commands.each_stream import of_each_stream
from connectors.cli.log_ends import Brokers, GroupView, LogEnds
from connectors.cli.output.shard_status import lag_of
from connectors.group.partition_files import note_of
from connectors.group.partition_state import PartitionFacts, PartitionState, state_of
from connectors.group.pauses import Pause, Pauses
from connectors.group.quarantine_notes import QuarantineNote, QuarantineNotes
from connectors.group.retry_shards import partition_of
from connectors.group.rewinds import Rewind, Rewinds
from connectors.kafka import Partition
from storage_core import (
    InvalidRequestError,
    ShardlogError,
    ShardOwner,
    ShardProgress,
    describe_stream,
    shard_progress,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartition:
    """A partition as it is printed."""

    partition: Partition
    has_shard: bool
    current: int | None
    state: PartitionState
    owner: ShardOwner | None
    note: QuarantineNote | None
    last_stable: int | None
    log_end: int | None
    lag: int | None
    lag_unknown: str | None
    group_offset: int | None
    client_id: str | None
    member_id: str | None


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of partitions at one moment.

    Attributes:
        partitions: Each as it stands.
        view: What Kafka says of the group.
        error: The first stream's error.
        is_group_missing: Whether Kafka knows neither offsets of the group nor members.
    """

    partitions: Sequence[DescribedPartition]
    view: GroupView
    error: ShardlogError | None
    is_group_missing: bool


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: of a root, a stream or all, some partitions or all, and of a group."""

    root: Path
    stream: str | None
    partitions: Collection[int]
    group: str

    def __post_init__(self) -> None:
        """Refuse partitions of no stream."""
        if self.partitions and self.stream is None:
            message = "--partition: name the stream whose partition it is"
            raise InvalidRequestError(message)


def describe_partitions(question: Question, brokers: Brokers, now_ms: int) -> Description:
    """Return each partition as it stands, and the group.

    Args:
        question: Of what.
        brokers: Who is asked beside the store.
        now_ms: The wall time.
    """
    root, notes = question.root, _Notes.read(question.root)
    views: list[GroupView] = []

    def look(name: str) -> list[DescribedPartition]:
        progress = shard_progress(root, name)
        shards = {at: shard for at, shard in progress.items() if partition_of(at) is None}
        incarnation = describe_stream(root, name).incarnation
        # IMPORTANT: after what the store says.
        ends = brokers.log_ends(root, name, of_all=True)
        numbers = sorted({*shards, *ends.ends, *notes.numbers(name)})
        chosen = _chosen(name, question.partitions, numbers)
        view = brokers.group(question.group, [Partition(name, number) for number in numbers])
        views.append(view)
        return [
            _described(
                Partition(name, number), shards.get(number), ends, view, notes, incarnation, now_ms
            )
            for number in chosen
        ]

    described, error = of_each_stream(root, question.stream, look)
    is_missing = bool(views) and all(view.is_empty for view in views)
    view = views[0] if views else brokers.group(question.group, ())
    return Description(described, view, error, is_missing)


@dataclass(frozen=True, slots=True)
class _Notes:
    """What files under the root say of partitions."""

    faults: Mapping[Partition, QuarantineNote]
    pauses: Mapping[Partition, Pause]
    rewinds: Mapping[Partition, Rewind]

    @classmethod
    def read(cls, root: Path) -> Self:
        """Read all."""
        return cls(
            {note.partition: note for note in QuarantineNotes(root).read()},
            {pause.partition: pause for pause in Pauses(root).read()},
            Rewinds(root).read(),
        )

    def numbers(self, stream: str) -> set[int]:
        """Return the partitions of a stream that are noted by themselves."""
        noted = (*self.faults, *self.pauses)
        return {at.number for at in noted if at.topic == stream and at.number >= 0}

    def rewind_of(self, partition: Partition, incarnation: str) -> Rewind | None:
        """Return what a note says of this stream, not of one that was dropped."""
        rewind = self.rewinds.get(partition)
        return rewind if rewind is not None and rewind.incarnation == incarnation else None


def _chosen(stream: str, wanted: Collection[int], numbers: Sequence[int]) -> Sequence[int]:
    for number in sorted(wanted):
        if number not in numbers:
            message = f"there is no partition {number}; there are {numbers}"
            raise InvalidRequestError(message, stream=stream)
    return [number for number in numbers if number in wanted] if wanted else numbers


def _described(  # noqa: PLR0913 - what a partition's state follows from
    partition: Partition,
    shard: ShardProgress | None,
    ends: LogEnds,
    view: GroupView,
    notes: _Notes,
    incarnation: str,
    now_ms: int,
) -> DescribedPartition:
    number, progress = partition.number, shard or ShardProgress()
    end, stable = ends.ends.get(number), ends.stable.get(number)
    note = note_of(notes.faults, partition)
    lag, unknown = None, ends.unknown
    # Of a partition without a shard all waits that its log has.
    reached = ends.starts.get(number) if shard is None else shard.committed
    if reached is not None:
        lag, unknown = lag_of(reached, end, ends, note)
    member = view.member_of(partition)
    facts = PartitionFacts(
        has_shard=shard is not None,
        next=progress.committed,
        readable_end=None if lag is None else stable,
        group_offset=view.offsets.get(partition),
        committed_ms=progress.committed_at_ms,
        owner=progress.owner,
        note=note,
        pause=note_of(notes.pauses, partition),
        rewind=notes.rewind_of(partition, incarnation),
        member=None if member is None else member.client_id,
    )
    return DescribedPartition(
        partition=partition,
        has_shard=shard is not None,
        current=progress.committed,
        state=state_of(facts, now_ms),
        owner=progress.owner,
        note=note,
        last_stable=stable,
        log_end=end,
        lag=lag,
        lag_unknown=unknown,
        group_offset=facts.group_offset,
        client_id=None if member is None else member.client_id,
        member_id=None if member is None else member.member_id,
    )
