"""`shardlog group describe`: offsets, lag, state and owner of each partition.

What the store knows is read first, what Kafka says afterwards, or a worker that goes on would be
taken for a log that was cut. Without brokers, or where they do not answer, their columns are empty.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.each_stream import of_each_stream
from connectors.cli.exit_codes import EXIT_UNAVAILABLE, exit_code_of_fault
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.log_ends import Brokers, GroupView, LogEnds
from connectors.cli.output.formatting import format_age
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.shard_status import lag_of, note_on
from connectors.group.partition_state import PartitionFacts, PartitionState, state_of
from connectors.group.pauses import Pause, Pauses
from connectors.group.quarantine_notes import QuarantineNote, QuarantineNotes
from connectors.kafka import GroupMember, Partition
from storage_core import Environment, ShardlogError, ShardOwner, ShardProgress, shard_progress

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
        if watch is not None and sys.stdout.isatty():
            moment = datetime.fromtimestamp(now_ms / 1000, UTC)
            print_line(f"{_CLEAR_SCREEN}{moment:%H:%M:%S} UTC, {root}, group {group}")
        if members:
            _print_members(view, as_json=as_json)
        else:
            _print(described, now_ms, as_json=as_json)
        if brokers.failure is not None:
            typer.echo(f"shardlog: log ends are not known: {brokers.failure}", err=True)
        if watch is None:
            break
        clock.sleep(watch)
    if error is not None:
        raise error
    return _exit_code(described)


def _look(
    root: Path, stream: str | None, group: str, brokers: Brokers, now_ms: int
) -> tuple[list[_Described], GroupView, ShardlogError | None]:
    """Return each partition as it stands, the group, and the first error."""
    notes, pauses = list(QuarantineNotes(root).read()), Pauses(root)
    views: list[GroupView] = []

    def look(name: str) -> list[_Described]:
        shards = shard_progress(root, name)
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
                note_on(notes, name, number),
                pauses.of(Partition(name, number)),
                now_ms,
            )
            for number, shard in shards.items()
        ]

    described, error = of_each_stream(root, stream, look)
    return described, views[0] if views else brokers.group(group, ()), error


def _described(  # noqa: PLR0913 - what a partition's state follows from
    partition: Partition,
    shard: ShardProgress,
    ends: LogEnds,
    view: GroupView,
    note: QuarantineNote | None,
    pause: Pause | None,
    now_ms: int,
) -> _Described:
    end, stable = ends.ends.get(partition.number), ends.stable.get(partition.number)
    lag, unknown = None, ends.unknown
    if shard.committed is not None:
        lag, unknown = lag_of(shard.committed, end, ends, note)
    facts = PartitionFacts(
        next=shard.committed,
        readable_end=None if lag is None else stable,
        group_offset=view.offsets.get(partition),
        committed_ms=shard.committed_at_ms,
        owner=shard.owner,
        note=note,
        pause=pause,
    )
    member = view.member_of(partition)
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
        print_json([_facts(each) for each in described])
        return
    rows = [
        (
            each.partition.topic,
            each.partition.number,
            each.state.state,
            _since(each.state.since_ms, now_ms),
            each.current,
            each.last_stable,
            each.log_end,
            each.lag,
            None if each.owner is None else each.owner.pid,
            None if each.owner is None else each.owner.host,
            each.client_id,
            each.state.reason or each.lag_unknown or "",
        )
        for each in described
    ]
    empty = {
        name
        for name, cells in zip(_COLUMNS, zip(*rows, strict=True), strict=False)
        if all(cell in (None, "") for cell in cells)
    }
    shown = [index for index, name in enumerate(_COLUMNS) if name not in empty]
    names = [_COLUMNS[index] for index in shown]
    print_table(names, [[row[index] for index in shown] for row in rows])


def _since(since_ms: int | None, now_ms: int) -> str | None:
    return None if since_ms is None else format_age((now_ms - since_ms) / 1000)


def _facts(each: _Described) -> dict[str, object]:
    return {
        "stream": each.partition.topic,
        "partition": each.partition.number,
        "state": each.state.state,
        "since_ms": each.state.since_ms,
        "reason": each.state.reason,
        "current_offset": each.current,
        "group_offset": each.group_offset,
        "last_stable_offset": each.last_stable,
        "log_end_offset": each.log_end,
        "lag": each.lag,
        "lag_unknown": each.lag_unknown,
        "owner": None if each.owner is None else asdict(each.owner),
        "client_id": each.client_id,
        "member_id": each.member_id,
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
    faults = [each.note for each in states if each.state.state == "quarantined" and each.note]
    oldest = min(faults, key=lambda note: note.since_ms, default=None)
    if oldest is not None:
        return exit_code_of_fault(oldest.kind)
    stands = any(each.state.state in ("stalled", "stopped") for each in states)
    return EXIT_UNAVAILABLE if stands else 0
