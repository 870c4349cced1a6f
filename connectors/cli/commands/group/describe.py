"""`shardlog group describe`: offsets, lag, state and owner of each partition.

A record that has just come to an idle partition looks like one that nobody stores. So what looks
stalled is looked at twice: it is only if its store has not moved in between.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.group.described import (
    DescribedPartition,
    Description,
    Question,
    describe_partitions,
)
from connectors.cli.exit_codes import EXIT_UNAVAILABLE, exit_code_of_fault, one_line
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.log_ends import Brokers, GroupView
from connectors.cli.output.formatting import format_age
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.kafka import GroupMember, Partition
from storage_core import (
    Clock,
    Environment,
    ShardlogError,
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


def describe(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str | None,
    partition: list[int] | None,
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
    question = Question(root, stream, partition or (), group)
    while True:
        brokers = Brokers(bootstrap, settings, broker_wait)
        now_ms = clock.now_ns() // 10**6
        description = describe_partitions(question, brokers, now_ms)
        if _has_any_moved(root, description.partitions, clock):
            now_ms = clock.now_ns() // 10**6
            description = describe_partitions(question, brokers, now_ms)
        error = description.error
        if error is not None and stream is not None:
            raise error
        if watch is not None and not as_json:
            moment = datetime.fromtimestamp(now_ms / 1000, UTC)
            clear = _CLEAR_SCREEN if sys.stdout.isatty() else ""
            print_line(f"{clear}{moment:%H:%M:%S} UTC, {root}, group {group}")
        if members:
            _print_members(description.view, as_json=as_json)
        else:
            _print(description.partitions, now_ms, as_json=as_json)
        for line in _remarks(description, brokers, group):
            typer.echo(f"shardlog: {line}", err=True)
        if watch is None:
            break
        if error is not None:
            typer.echo(f"shardlog: {one_line(error)}", err=True)
        clock.sleep(watch)
    if error is not None:
        raise error
    return _exit_code(description.partitions)


def _remarks(description: Description, brokers: Brokers, group: str) -> Iterator[str]:
    """Yield what is not known, and why."""
    if brokers.failure is not None:
        yield f"log ends are not known: {brokers.failure}"
    if description.is_group_missing:
        yield (
            f"Kafka has no offsets and no members of group {group!r}; name the group of the "
            "workers with --group"
        )


def _has_any_moved(root: Path, described: Iterable[DescribedPartition], clock: Clock) -> bool:
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


def _print(described: Sequence[DescribedPartition], now_ms: int, *, as_json: bool) -> None:
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


def _facts(line: DescribedPartition) -> dict[str, object]:
    return {
        "stream": line.partition.topic,
        "partition": line.partition.number,
        "has_shard": line.has_shard,
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


def _exit_code(described: Iterable[DescribedPartition]) -> int:
    states = list(described)
    faults = [line.note for line in states if line.state.state == "quarantined" and line.note]
    oldest = min(faults, key=lambda note: note.since_ms, default=None)
    if oldest is not None:
        return exit_code_of_fault(oldest.kind)
    stands = any(
        line.state.state in ("stalled", "stopped") and (line.has_shard or line.lag)
        for line in states
    )
    return EXIT_UNAVAILABLE if stands else 0
