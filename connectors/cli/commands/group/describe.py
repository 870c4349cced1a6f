"""`shardlog group describe`: offsets, lag, state and owner of each partition.

What the store knows is read first, what Kafka says afterwards, or a worker that goes on would be
taken for a log that was cut. Without brokers, or where they do not answer, their columns are empty.

A record that has just come to an idle partition looks like one that nobody stores. So what looks
stalled is looked at twice: it is only if its store has not moved in between.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.each_stream import of_each_stream
from connectors.cli.exit_codes import EXIT_UNAVAILABLE, exit_code_of_fault, one_line
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.log_ends import Brokers, GroupView, LogEnds
from connectors.cli.output.formatting import format_age
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.shard_status import lag_of
from connectors.group.partition_files import note_of
from connectors.group.partition_state import PartitionFacts, PartitionState, state_of
from connectors.group.pauses import Pause, Pauses
from connectors.group.quarantine_notes import QuarantineNote, QuarantineNotes
from connectors.group.retry_shards import partition_of
from connectors.group.rewinds import Rewind, Rewinds
from connectors.kafka import GroupMember, Partition
from storage_core import (
    Clock,
    Environment,
    ShardlogError,
    ShardOwner,
    ShardProgress,
    describe_stream,
    shard_progress,
)

# The second looks as the first where a worker has moved between the store's answer and Kafka's.
_DOUBTFUL: Final = ("stalled", "rewinding")
# How long a store may take to move that seems to stand still, and how often it is looked at.
_MOVES_WITHIN_S: Final = 2.0
_LOOK_EVERY_S: Final = 0.05
_CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"
_COLUMNS: Final = (
    "stream",
    "partition",
    "state",
    "for",
    "current",
    "last stable",
    "log end",
    "lag",
    "process",
    "host",
    "client id",
    "why",
)
_MEMBER_COLUMNS: Final = ("client id", "instance id", "host", "partitions", "member id")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """A partition as it is printed."""

    partition: Partition
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


def describe(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str | None,
    group: str,
    members: bool,
    watch: float | None,
    as_json: bool,
    bootstrap: str | None,
    kafka: list[str] | None,
    broker_wait: float,
) -> int:
    """Show the state of each partition; the exit code says whether one stands still."""
    clock = Environment().clock
    settings = kafka_settings(kafka)
    while True:
        brokers = Brokers(bootstrap, settings, broker_wait)
        now_ms = clock.now_ns() // 10**6
        described, view, error = _look(root, stream, group, brokers, now_ms)
        if _has_any_moved(root, described, clock):
            now_ms = clock.now_ns() // 10**6
            described, view, error = _look(root, stream, group, brokers, now_ms)
        if error is not None and stream is not None:
            raise error
        if watch is not None and not as_json:
            moment = datetime.fromtimestamp(now_ms / 1000, UTC)
            clear = _CLEAR_SCREEN if sys.stdout.isatty() else ""
            print_line(f"{clear}{moment:%H:%M:%S} UTC, {root}, group {group}")
        if members:
            _print_members(view, as_json=as_json)
        else:
            _print(described, now_ms, as_json=as_json)
        if brokers.failure is not None:
            typer.echo(f"shardlog: log ends are not known: {brokers.failure}", err=True)
        if watch is None:
            break
        if error is not None:
            typer.echo(f"shardlog: {one_line(error)}", err=True)
        clock.sleep(watch)
    if error is not None:
        raise error
    return _exit_code(described)


def _has_any_moved(root: Path, described: Iterable[_Described], clock: Clock) -> bool:
    """Wait, bounded, until all stores that seem to stand still have moved; tell whether any has."""
    before = {at.partition: at.current for at in described if at.state.state in _DOUBTFUL}
    moved: set[Partition] = set()
    deadline_s = clock.monotonic_s() + _MOVES_WITHIN_S
    while len(moved) < len(before) and clock.monotonic_s() < deadline_s:
        clock.sleep(_LOOK_EVERY_S)
        for stream in {partition.topic for partition in before}:
            # A stream that was dropped in between is told of by the next look.
            with suppress(ShardlogError):
                for number, shard in shard_progress(root, stream).items():
                    partition = Partition(stream, number)
                    if partition in before and shard.committed != before[partition]:
                        moved.add(partition)
    return bool(moved)


def _look(
    root: Path, stream: str | None, group: str, brokers: Brokers, now_ms: int
) -> tuple[list[_Described], GroupView, ShardlogError | None]:
    """Return each partition as it stands, the group, and the first error."""
    notes = {note.partition: note for note in QuarantineNotes(root).read()}
    pauses = {pause.partition: pause for pause in Pauses(root).read()}
    rewinds = Rewinds(root).read()
    views: list[GroupView] = []

    def look(name: str) -> list[_Described]:
        shards = {
            number: shard
            for number, shard in shard_progress(root, name).items()
            if partition_of(number) is None
        }
        incarnation = describe_stream(root, name).incarnation
        # IMPORTANT: after what the store says.
        ends = brokers.log_ends(root, name)
        view = brokers.group(group, [Partition(name, number) for number in shards])
        views.append(view)
        return [
            _described(
                Partition(name, number),
                shard,
                ends,
                view,
                note_of(notes, Partition(name, number)),
                note_of(pauses, Partition(name, number)),
                _of_incarnation(rewinds.get(Partition(name, number)), incarnation),
                now_ms,
            )
            for number, shard in shards.items()
        ]

    described, error = of_each_stream(root, stream, look)
    return described, views[0] if views else brokers.group(group, ()), error


def _of_incarnation(rewind: Rewind | None, incarnation: str) -> Rewind | None:
    """Return what a note says of this stream, not of one that was dropped."""
    return rewind if rewind is not None and rewind.incarnation == incarnation else None


def _described(  # noqa: PLR0913 - what a partition's state follows from
    partition: Partition,
    shard: ShardProgress,
    ends: LogEnds,
    view: GroupView,
    note: QuarantineNote | None,
    pause: Pause | None,
    rewind: Rewind | None,
    now_ms: int,
) -> _Described:
    end, stable = ends.ends.get(partition.number), ends.stable.get(partition.number)
    lag, unknown = None, ends.unknown
    if shard.committed is not None:
        lag, unknown = lag_of(shard.committed, end, ends, note)
    member = view.member_of(partition)
    facts = PartitionFacts(
        next=shard.committed,
        readable_end=None if lag is None else stable,
        group_offset=view.offsets.get(partition),
        committed_ms=shard.committed_at_ms,
        owner=shard.owner,
        note=note,
        pause=pause,
        rewind=rewind,
        member=None if member is None else member.client_id,
    )
    return _Described(
        partition=partition,
        current=shard.committed,
        state=state_of(facts, now_ms),
        owner=shard.owner,
        note=note,
        last_stable=stable,
        log_end=end,
        lag=lag,
        lag_unknown=unknown,
        group_offset=facts.group_offset,
        client_id=None if member is None else member.client_id,
        member_id=None if member is None else member.member_id,
    )


def _print(described: Sequence[_Described], now_ms: int, *, as_json: bool) -> None:
    if as_json:
        print_json([_facts(line) for line in described])
        return
    rows = [
        (
            line.partition.topic,
            line.partition.number,
            line.state.state,
            _since(line.state.since_ms, now_ms),
            line.current,
            line.last_stable,
            line.log_end,
            line.lag,
            None if line.owner is None else line.owner.pid,
            None if line.owner is None else line.owner.host,
            line.client_id,
            line.state.reason or line.lag_unknown or "",
        )
        for line in described
    ]
    empty = {
        name
        for name, cells in zip(_COLUMNS, zip(*rows, strict=True), strict=False)
        if all(cell in (None, "") for cell in cells)
    }
    columns = [index for index, name in enumerate(_COLUMNS) if name not in empty]
    names = [_COLUMNS[index] for index in columns]
    print_table(names, [[row[index] for index in columns] for row in rows])


def _since(since_ms: int | None, now_ms: int) -> str | None:
    return None if since_ms is None else format_age((now_ms - since_ms) / 1000)


def _facts(line: _Described) -> dict[str, object]:
    return {
        "stream": line.partition.topic,
        "partition": line.partition.number,
        "state": line.state.state,
        "since_ms": line.state.since_ms,
        "reason": line.state.reason,
        "current_offset": line.current,
        "group_offset": line.group_offset,
        "last_stable_offset": line.last_stable,
        "log_end_offset": line.log_end,
        "lag": line.lag,
        "lag_unknown": line.lag_unknown,
        "owner": None if line.owner is None else asdict(line.owner),
        "client_id": line.client_id,
        "member_id": line.member_id,
    }


def _print_members(view: GroupView, *, as_json: bool) -> None:
    if as_json:
        print_json([_member_facts(member) for member in view.members])
        return
    rows = [
        (
            member.client_id,
            member.instance_id,
            member.host,
            " ".join(_ranges(member.partitions)),
            member.member_id,
        )
        for member in view.members
    ]
    print_table(_MEMBER_COLUMNS, rows)


def _member_facts(member: GroupMember) -> dict[str, object]:
    return {**asdict(member), "partitions": [list(at) for at in sorted(member.partitions)]}


def _ranges(partitions: Iterable[Partition]) -> Iterator[str]:
    """Yield the partitions of each topic, as `orders:0,2`."""
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    for topic, of_topic in numbers.items():
        yield f"{topic}:{','.join(map(str, of_topic))}"


def _exit_code(described: Iterable[_Described]) -> int:
    states = list(described)
    faults = [line.note for line in states if line.state.state == "quarantined" and line.note]
    oldest = min(faults, key=lambda note: note.since_ms, default=None)
    if oldest is not None:
        return exit_code_of_fault(oldest.kind)
    stands = any(line.state.state in ("stalled", "stopped") for line in states)
    return EXIT_UNAVAILABLE if stands else 0
