"""The state of a partition, as an operator is told of it: one word, since when, and why.

    ok            nothing waits
    behind        records wait, and are being stored
    rewinding     the store fetches again what it lacks, up to where the group stood
    stalled       records wait, and nothing was committed for long though a process holds the shard
    stopped       no process holds the shard
    paused        an operator has paused it
    quarantined   it has a fault of its own, and is tried again by itself

One that is paused and quarantined is paused; of the others the last that holds is its state.
"""

from dataclasses import dataclass
from typing import Final, Literal

from connectors.group.pauses import Pause
from connectors.group.quarantine_notes import QuarantineNote
from connectors.group.rewinds import Rewind
from storage_core import ShardOwner

State = Literal["ok", "behind", "stalled", "rewinding", "stopped", "paused", "quarantined"]

# A worker that has records commits many times a second; a disk that hangs takes seconds.
STALLED_AFTER_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What is known of a partition.

    Attributes:
        next: The offset below which everything is durable, as the store says; None where it cannot.
        readable_end: The last stable offset, or the log's end; None where it is not known.
        group_offset: Where the group stands in Kafka, a copy of `next`; None where not known.
        committed_ms: When its shard was committed last.
        owner: The process that holds its shard.
        note: Its fault, or its topic's.
        pause: Its pause, or its stream's.
        rewind: What was last fetched again of it.
        has_shard: Whether it has a shard; not before a worker opens it the first time.
        member: The client id of the group's member that Kafka says it is assigned to.
    """

    next: int | None
    readable_end: int | None = None
    group_offset: int | None = None
    committed_ms: int | None = None
    owner: ShardOwner | None = None
    note: QuarantineNote | None = None
    pause: Pause | None = None
    rewind: Rewind | None = None
    has_shard: bool = True
    member: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A word, since when it holds (None where nobody knows), and why."""

    state: State
    since_ms: int | None = None
    reason: str = ""


def state_of(facts: PartitionFacts, now_ms: int) -> PartitionState:
    """Return the state of a partition.

    Args:
        facts: What is known of it.
        now_ms: The wall time.
    """
    if facts.pause is not None:
        fault = "" if facts.note is None else f"{facts.note.kind}: {facts.note.reason}"
        reason = "; quarantined too, ".join(filter(None, (facts.pause.reason, fault)))
        return PartitionState("paused", facts.pause.since_ms, reason)
    if facts.note is not None:
        return PartitionState(
            "quarantined", facts.note.since_ms, f"{facts.note.kind}: {facts.note.reason}"
        )
    if facts.owner is None:
        reason = "no process holds its shard" if facts.has_shard else "it has no shard yet"
        if facts.member is not None:
            reason += f"; the group has given it to {facts.member}, whose log says why"
        return PartitionState("stopped", facts.committed_ms, reason)
    return _state_under(facts.owner, facts, now_ms)


def _state_under(owner: ShardOwner, facts: PartitionFacts, now_ms: int) -> PartitionState:
    if facts.next is None:
        return PartitionState("ok", reason="how far it is stored cannot be read")
    rewinding = _rewinding(owner, facts, facts.next)
    if facts.readable_end is None or facts.readable_end <= facts.next:
        return rewinding or PartitionState("ok")
    # Before its owner had it nothing could be committed.
    moved_ms = max(owner.since_ms, facts.committed_ms or 0)
    if now_ms - moved_ms >= STALLED_AFTER_MS:
        reason = f"{owner} holds its shard and commits nothing"
        return PartitionState("stalled", moved_ms, reason)
    return rewinding or PartitionState("behind")


def _rewinding(owner: ShardOwner, facts: PartitionFacts, shard_next: int) -> PartitionState | None:
    rewind = facts.rewind
    # Kafka's copy tells of it until the worker has committed the first time.
    until = max(facts.group_offset or 0, 0 if rewind is None else rewind.until)
    if until <= shard_next:
        return None
    since_ms = owner.since_ms if rewind is None else rewind.since_ms
    reason = f"the group stood at {until}; what the store lacks of it is fetched again"
    return PartitionState("rewinding", since_ms, reason)
