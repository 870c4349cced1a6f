"""Retry: what is quarantined is tried again now, not when its turn comes.

The worker that has quarantined a partition takes the request, and tries to open its shard. Its note
says what is quarantined, but a disk may not have taken the note: so a partition that nobody holds
may be tried without one, and its owner tells then whether it goes on.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from connectors.group.owner_waits import WAIT_S, Outcome, await_until, owners_of
from connectors.group.partition_files import WHOLE_TOPIC
from connectors.group.pauses import Pauses
from connectors.group.quarantine_notes import QuarantineNote, QuarantineNotes
from connectors.group.retry_requests import RetryRequests
from connectors.group.retry_shards import partition_of
from connectors.kafka import Partition
from storage_core import InvalidRequestError, ShardOwner, SystemClock


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
        partitions: Which, quarantined or held by nobody; none for all that are quarantined, or
            where no note says so for all that nobody holds.
        wait_s: How long to wait for owners.

    Raises:
        InvalidRequestError: There is no such partition, or none is quarantined.
        UnavailableError: The disk does not take a request.
    """
    notes = QuarantineNotes(root).of_stream(stream)
    pauses = Pauses(root).of_stream(stream)
    wanted = _wanted(stream, partitions, notes, owners_of(root, stream), pauses)
    paused = [at for at in wanted if {at.number, WHOLE_TOPIC} & pauses.keys()]
    tried = [at for at in wanted if at not in paused and at.number != WHOLE_TOPIC]
    requests = RetryRequests(root)
    outcomes = _try_now(root, stream, tried, requests, wait_s)
    untaken = [partition for partition in tried if requests.withdraw(partition)]
    for partition in wanted:
        if partition.number == WHOLE_TOPIC:
            text = f"the whole topic is tried every ten seconds: {notes[partition].reason}"
        elif partition in paused:
            text = "is paused; it is tried once it is resumed"
        elif partition in untaken:
            text = f"no worker that has quarantined it took the request within {wait_s:g} s"
        elif partition in notes:
            text = f"is being tried; it was not over within {wait_s:g} s"
        else:
            text = (
                f"is being tried; no process has opened its shard within {wait_s:g} s, and no "
                "note says why: see the worker's log"
            )
        outcomes.setdefault(partition, Outcome(partition, is_done=False, text=text))
    return [outcomes[partition] for partition in wanted]


def _wanted(
    stream: str,
    numbers: Iterable[int],
    notes: Collection[Partition],
    owners: Mapping[int, ShardOwner | None],
    pauses: Collection[int],
) -> list[Partition]:
    """Return the partitions to be tried: those named, or all that may be quarantined."""
    unheld = [number for number, owner in owners.items() if owner is None]
    named = [Partition(stream, number) for number in numbers]
    for partition in named:
        if partition not in notes and partition.number not in unheld:
            message = f"there is no partition {partition.number}"
            if partition.number in owners:
                message = f"partition {partition.number} is not quarantined"
            raise InvalidRequestError(message, stream=stream)
    if named or notes:
        return named or sorted(notes)
    stopped = [
        Partition(stream, number)
        for number in sorted(unheld)
        if partition_of(number) is None and not {number, WHOLE_TOPIC} & set(pauses)
    ]
    if not stopped:
        message = "no partition is quarantined"
        raise InvalidRequestError(message, stream=stream)
    return stopped


def _try_now(
    root: Path, stream: str, tried: Collection[Partition], requests: RetryRequests, wait_s: float
) -> dict[Partition, Outcome]:
    """Leave the requests, and return what came of those that were over in time."""
    noted = QuarantineNotes(root)
    before = noted.of_stream(stream)
    # A fault that was found before counts for nothing, however late its note is written.
    asked_ns = SystemClock().now_ns()
    for partition in tried:
        requests.write(partition)
    outcomes: dict[Partition, Outcome] = {}

    def have_all_come() -> bool:
        owners, notes = owners_of(root, stream), noted.of_stream(stream)
        for partition in tried:
            if requests.has(partition):
                continue
            outcome = _retried(
                partition,
                owners.get(partition.number),
                notes.get(partition),
                was_noted=partition in before,
                is_noted_anew=noted.tried_ns(partition) > asked_ns,
            )
            if outcome is not None:
                outcomes[partition] = outcome
        return len(outcomes) == len(tried)

    await_until(have_all_come, wait_s)
    return outcomes


def _retried(
    partition: Partition,
    owner: ShardOwner | None,
    note: QuarantineNote | None,
    *,
    was_noted: bool,
    is_noted_anew: bool,
) -> Outcome | None:
    """Return what came of a retry that was taken, None while it is not over."""
    if note is None:
        if owner is None and not was_noted:
            return None
        goes_on = "it goes on" if owner is None else f"{owner} goes on"
        return Outcome(partition, is_done=True, text=f"tried again; {goes_on}", owner=owner)
    if is_noted_anew:
        return Outcome(
            partition, is_done=False, text=f"tried again; still {note.kind}: {note.reason}"
        )
    return None
