"""Pause, resume and retry: what an operator does to partitions while workers run.

Each call writes what is wanted, then waits, bounded, until the partitions' owners have done it, and
says for each what it saw. A call may be repeated. The store is the truth: none of it touches the
group's offsets in Kafka.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.group.partition_files import WHOLE_TOPIC
from connectors.group.pauses import Pause, Pauses
from connectors.group.quarantine_notes import QuarantineNote, QuarantineNotes
from connectors.group.retry_requests import RetryRequests
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

WAIT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition.

    Attributes:
        partition: The partition.
        is_done: Whether it is as wanted; false where its owner did not do it in time.
        text: What was seen, for people.
        owner: The process that has its shard open at the end; None where nobody has.
    """

    partition: Partition
    is_done: bool
    text: str
    owner: ShardOwner | None = None


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
    before = _owners(root, stream)
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
    notes = _quarantined(root, stream)
    return [
        _resumed(Partition(stream, number), before.get(number), owners[number], notes, wait_s)
        if number in owners
        else Outcome(Partition(stream, number), is_done=True, text="was not paused")
        for number in chosen
    ]


def retry(
    root: Path, stream: str, partitions: Iterable[int] = (), *, wait_s: float = WAIT_S
) -> list[Outcome]:
    """Have quarantined partitions of a stream tried again now.

    1. Leave a request for each partition that is quarantined.
    2. Wait until the worker that has quarantined it has tried it: its shard is open, or the fault
       is noted again.
    3. Withdraw requests that nobody took.

    Args:
        root: The root's path.
        stream: The stream's name.
        partitions: Which; none for all that are quarantined.
        wait_s: How long to wait for owners.

    Raises:
        InvalidRequestError: There is no such partition, or none is quarantined.
        UnavailableError: The disk does not take a request.
    """
    quarantined = _quarantined(root, stream)
    wanted = [Partition(stream, number) for number in partitions] or sorted(quarantined)
    _check_quarantined(stream, wanted, quarantined)
    pauses = Pauses(root)
    paused = [partition for partition in wanted if pauses.of(partition) is not None]
    tried = [at for at in wanted if at not in paused and at.number != WHOLE_TOPIC]
    requests = RetryRequests(root)
    outcomes = _try_now(root, stream, tried, requests, wait_s)
    untaken = [partition for partition in tried if requests.withdraw(partition)]
    for partition in wanted:
        if partition.number == WHOLE_TOPIC:
            text = f"the whole topic is tried every ten seconds: {quarantined[partition].reason}"
        elif partition in paused:
            text = "is paused; it is tried once it is resumed"
        elif partition in untaken:
            text = f"no worker that has quarantined it took the request within {wait_s:g} s"
        else:
            text = f"is being tried; it was not over within {wait_s:g} s"
        outcomes.setdefault(partition, Outcome(partition, is_done=False, text=text))
    return [outcomes[partition] for partition in wanted]


def _check_quarantined(
    stream: str, wanted: Collection[Partition], quarantined: Collection[Partition]
) -> None:
    message = None if wanted else "no partition is quarantined"
    for partition in wanted:
        if partition not in quarantined:
            message = f"partition {partition.number} is not quarantined"
    if message is not None:
        raise InvalidRequestError(message, stream=stream)


def _try_now(
    root: Path, stream: str, tried: Collection[Partition], requests: RetryRequests, wait_s: float
) -> dict[Partition, Outcome]:
    """Leave the requests, and return what came of those that were over in time."""
    noted = QuarantineNotes(root)
    before = {partition: noted.written_ns(partition) for partition in tried}
    for partition in tried:
        requests.write(partition)
    outcomes: dict[Partition, Outcome] = {}

    def have_all_come() -> bool:
        owners, notes = _owners(root, stream), _quarantined(root, stream)
        for partition in tried:
            if requests.has(partition):
                continue
            is_noted_anew = noted.written_ns(partition) != before[partition]
            owner, note = owners.get(partition.number), notes.get(partition)
            outcome = _retried(partition, owner, note, is_noted_anew=is_noted_anew)
            if outcome is not None:
                outcomes[partition] = outcome
        return len(outcomes) == len(tried)

    _await(have_all_come, wait_s)
    return outcomes


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


def _owners(root: Path, stream: str) -> dict[int, ShardOwner | None]:
    """Return who holds each shard; of a stream that is not there, none."""
    return shard_owners(root, stream) if stream in list_streams(root) else {}


def _quarantined(root: Path, stream: str) -> dict[Partition, QuarantineNote]:
    return {
        Partition(note.stream, note.shard): note
        for note in QuarantineNotes(root).read()
        if note.stream == stream
    }


def await_owners(
    root: Path,
    stream: str,
    chosen: Iterable[int],
    is_wanted: Callable[[int, ShardOwner | None], bool],
    wait_s: float,
) -> dict[int, ShardOwner | None]:
    """Return who holds each shard once all are as wanted, or the time is over."""
    owners: dict[int, ShardOwner | None] = {}

    def are_all_wanted() -> bool:
        now = _owners(root, stream)
        owners.update({number: now.get(number) for number in chosen})
        return all(is_wanted(number, owner) for number, owner in owners.items())

    _await(are_all_wanted, wait_s)
    return owners


def _await(is_over: Callable[[], bool], wait_s: float) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + wait_s
    while not is_over() and clock.monotonic_s() < deadline_s:
        clock.sleep(_LOOK_EVERY_S)


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
    note = notes.get(partition) or notes.get(Partition(partition.topic, WHOLE_TOPIC))
    if owner is not None and owner == before:
        text = f"resumed; {owner} had its shard open before, and still has"
    elif owner is not None:
        text = f"resumed; {owner} goes on"
    elif note is not None:
        text = f"resumed, but it is quarantined, {note.kind}: {note.reason}"
    else:
        text = f"resumed; no worker has opened its shard within {wait_s:g} s"
    return Outcome(partition, is_done=True, text=text, owner=owner)


def _retried(
    partition: Partition,
    owner: ShardOwner | None,
    note: QuarantineNote | None,
    *,
    is_noted_anew: bool,
) -> Outcome | None:
    """Return what came of a retry that was taken, None while it is not over."""
    if note is None:
        goes_on = "it goes on" if owner is None else f"{owner} goes on"
        return Outcome(partition, is_done=True, text=f"tried again; {goes_on}", owner=owner)
    if is_noted_anew:
        return Outcome(
            partition, is_done=False, text=f"tried again; still {note.kind}: {note.reason}"
        )
    return None
