"""Pause and resume: what an operator does to partitions while workers run.

Each call writes what is wanted, then waits, bounded, until the partitions' owners have done it, and
says for each what it saw. A call may be repeated. The store is the truth: none of it touches the
group's offsets in Kafka.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from connectors.group.owner_waits import WAIT_S, Outcome, await_owners, owners_of
from connectors.group.partition_files import WHOLE_TOPIC, note_of
from connectors.group.pauses import Pause, Pauses
from connectors.group.quarantine_notes import QuarantineNote, QuarantineNotes
from connectors.group.retry_shards import partition_of
from connectors.kafka import Partition
from storage_core import (
    InvalidRequestError,
    ShardOwner,
    SystemClock,
    describe_stream,
    list_streams,
    shard_owners,
)


def pause(
    root: Path,
    stream: str,
    partitions: Iterable[int] = (),
    *,
    reason: str = "",
    wait_s: float = WAIT_S,
) -> list[Outcome]:
    """Pause partitions of a stream, or the whole stream, durably.

    1. Write the pause. From here on no worker of the root opens these shards anew.
    2. Wait until each shard is closed: its owner has committed what it had of it.

    Where 1 fails nothing is paused. Where 2 takes too long the pause holds all the same.

    Args:
        root: The root's path.
        stream: The stream's name.
        partitions: Which; none for the whole stream, those to come included.
        reason: Why, for whoever sees it paused.
        wait_s: How long to wait for owners.

    Raises:
        InvalidRequestError: There is no such stream or partition, or we may not write here.
        UnavailableError: The disk does not take it.
    """
    clock = SystemClock()
    named = sorted(set(partitions))
    chosen = _chosen(stream, named, _shards(root, stream))
    before = shard_owners(root, stream)
    pauses, now_ms = Pauses(root), clock.now_ns() // 10**6
    paused = {number: pauses.of(Partition(stream, number)) for number in chosen}
    for number in named or [WHOLE_TOPIC]:
        pauses.write(Pause(stream, number, now_ms, " ".join(reason.split())))
    owners = await_owners(root, stream, chosen, lambda _, owner: owner is None, wait_s)
    return [
        _paused(
            Partition(stream, number), paused[number], before.get(number), owners[number], wait_s
        )
        for number in chosen
    ]


def resume(
    root: Path, stream: str, partitions: Iterable[int] = (), *, wait_s: float = WAIT_S
) -> list[Outcome]:
    """Resume partitions of a stream, or all of it, durably.

    1. Remove the pauses. Of a stream that is paused as a whole, the partitions not named are paused
       one by one first.
    2. Wait until a worker has each shard open.

    Where 1 fails in the midst, what was not resumed is still paused. Where 2 takes too long the
    partitions are resumed all the same, and whoever the group gives them to goes on.

    Args:
        root: The root's path.
        stream: The stream's name.
        partitions: Which; none for all that are paused.
        wait_s: How long to wait for owners.

    Raises:
        InvalidRequestError: There is no such stream or partition, or we may not write here.
        UnavailableError: The disk does not take it.
    """
    pauses = Pauses(root)
    of_stream = pauses.of_stream(stream)
    # A stream may be paused that nothing was stored of yet, or that was moved away.
    existing = [] if of_stream and stream not in list_streams(root) else _shards(root, stream)
    numbers = sorted({*existing, *(number for number in of_stream if number != WHOLE_TOPIC)})
    chosen = _chosen(stream, partitions, numbers)
    whole = of_stream.get(WHOLE_TOPIC)
    paused = [number for number in chosen if whole is not None or number in of_stream]
    before = owners_of(root, stream)
    if whole is not None:
        for number in set(numbers) - set(chosen):
            pauses.write(Pause(stream, number, whole.since_ms, whole.reason))
        pauses.remove(whole.partition)
    for number in chosen:
        pauses.remove(Partition(stream, number))
    if not chosen:
        text = "resumed; nothing is stored of it yet"
        return [Outcome(Partition(stream, WHOLE_TOPIC), is_done=True, text=text)]
    owners = await_owners(
        root,
        stream,
        paused,
        # Who has had it while it was paused is no worker that goes on, or one that never paused.
        lambda number, owner: owner is not None and owner != before.get(number),
        wait_s,
    )
    notes = QuarantineNotes(root).of_stream(stream)
    return [
        _resumed(Partition(stream, number), before.get(number), owners[number], notes, wait_s)
        if number in owners
        else Outcome(Partition(stream, number), is_done=True, text="was not paused")
        for number in chosen
    ]


def _chosen(stream: str, partitions: Iterable[int], existing: Sequence[int]) -> Sequence[int]:
    """Return the partitions named, or all there are.

    Raises:
        InvalidRequestError: There is no such partition.
    """
    named = sorted(set(partitions))
    for number in named:
        if number not in existing:
            message = f"there is no partition {number}; there are {existing}"
            raise InvalidRequestError(message, stream=stream)
    return named or existing


def _shards(root: Path, stream: str) -> Sequence[int]:
    shards = describe_stream(root, stream).shards
    return [number for number in shards if partition_of(number) is None]


def _paused(
    partition: Partition,
    earlier: Pause | None,
    before: ShardOwner | None,
    owner: ShardOwner | None,
    wait_s: float,
) -> Outcome:
    if owner is not None:
        text = f"paused, but {owner} still has its shard open after {wait_s:g} s"
        return Outcome(partition, is_done=False, text=text, owner=owner)
    if before is not None:
        return Outcome(partition, is_done=True, text=f"paused; {before} has closed its shard")
    if earlier is not None:
        reason = f": {earlier.reason}" if earlier.reason else ""
        return Outcome(
            partition, is_done=True, text=f"was paused already, since {earlier.since}{reason}"
        )
    text = "paused; nobody had its shard open, whoever takes it will start paused"
    return Outcome(partition, is_done=True, text=text)


def _resumed(
    partition: Partition,
    before: ShardOwner | None,
    owner: ShardOwner | None,
    notes: Mapping[Partition, QuarantineNote],
    wait_s: float,
) -> Outcome:
    note = note_of(notes, partition)
    if owner is not None and owner == before:
        text = f"resumed; {owner} had its shard open before, and still has"
    elif owner is not None:
        text = f"resumed; {owner} goes on"
    elif note is not None:
        text = f"resumed, but it is quarantined, {note.kind}: {note.reason}"
    else:
        text = f"resumed; no worker has opened its shard within {wait_s:g} s"
    return Outcome(partition, is_done=True, text=text, owner=owner)
