"""`shardlog group reset`: let partitions go on from another offset, forward or backward."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from connectors.cli.exit_codes import exit_code_for, one_line
from connectors.cli.input.arguments import kafka_settings, primary_bound
from connectors.cli.output.printing import print_json, print_lines, print_table
from connectors.group.reset import (
    Reset,
    ResetOutcome,
    check_same_topic,
    planned_resets,
    refuse_held,
    run_reset,
)
from connectors.group.reset_target import Target, duration_target
from connectors.kafka import Admin, OffsetAdmin, Partition, Place
from storage_core import InvalidRequestError, SystemClock, describe_stream

_COLUMNS: Final = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "CURRENT-OFFSET", "EFFECT")
_BROKER_WAIT_S: Final = 10.0
_TARGETS: Final = (
    "--to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by or --by-duration"
)


def reset(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    shift_by: int | None,
    by_duration: str | None,
    partition: list[int] | None,
    group: str | None,
    execute: bool,
    bootstrap: str,
    kafka: list[str] | None,
    as_json: bool,
) -> int:
    """Reset partitions, or say what it would do; the exit code is that of the first failure."""
    moment_ms = primary_bound("--to-datetime", to_datetime, "ms")
    target = _target(
        [
            Target("earliest") if to_earliest else None,
            Target("latest") if to_latest else None,
            None if to_offset is None else Target("offset", to_offset),
            None if moment_ms is None else Target("time", max(moment_ms, 0)),
            None if shift_by is None else Target("shift", shift_by),
            None
            if by_duration is None
            else duration_target(by_duration, SystemClock().now_ns() // 10**6),
        ]
    )
    if group == "":
        message = "--group is empty; name the consumer group, or leave it out"
        raise InvalidRequestError(message)
    settings: dict[str, object] = {**kafka_settings(kafka), "bootstrap.servers": bootstrap}
    _check_topic(root, stream, settings)
    offsets = OffsetAdmin(settings)
    resets = planned_resets(root, stream, target, offsets, partition or ())
    if not execute:
        _print(group, resets, None, as_json=as_json)
        return 0
    refuse_held(root, stream, resets)
    set_group: Callable[[Partition, Place], None] | None = None
    if group is not None:
        set_group = partial(offsets.set_group, group)
    outcomes = [run_reset(root, stream, planned, set_group) for planned in resets]
    _print(group, resets, outcomes, as_json=as_json)
    failures = [outcome.error for outcome in outcomes if outcome.error is not None]
    return exit_code_for(failures[0]) if failures else 0


def _target(targets: Sequence[Target | None]) -> Target:
    named = [target for target in targets if target is not None]
    if len(named) != 1:
        message = f"say where to: one of {_TARGETS}; there are {len(named)}"
        raise InvalidRequestError(message)
    return named[0]


def _check_topic(root: Path, stream: str, settings: dict[str, object]) -> None:
    origin = describe_stream(root, stream).origin
    if origin is None:
        return
    admin = Admin(settings)
    admin.await_broker(_BROKER_WAIT_S)
    topic_ids = admin.ask_topic_ids([origin.topic])(_BROKER_WAIT_S)
    check_same_topic(stream, origin.topic_id, topic_ids, origin.topic)


def _print(
    group: str | None,
    resets: Sequence[Reset],
    outcomes: Sequence[ResetOutcome] | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        facts = [_facts(group, one) for one in outcomes or map(ResetOutcome, resets)]
        print_json([{**fact, "is_executed": outcomes is not None} for fact in facts])
        return
    rows = [
        (group, *planned.partition, planned.target, planned.current, planned.text())
        for planned in resets
    ]
    print_table(_COLUMNS, rows)
    if outcomes is None:
        print_lines(["nothing was changed; add --execute to do it"])
    else:
        print_lines([line for outcome in outcomes for line in _lines(outcome)])


def _lines(outcome: ResetOutcome) -> list[str]:
    place = f"{outcome.reset.partition.topic} partition {outcome.reset.partition.number}"
    if outcome.error is not None:
        return [f"{place}: not reset: {one_line(outcome.error)}"]
    lines = [f"{place}: goes on at {outcome.reset.target}"]
    if outcome.archived is not None:
        lines[0] += f"; its old log is archived as {outcome.archived.lineage}"
    if outcome.group_refusal is not None:
        lines.append(
            f"{place}: the group's offset in Kafka is a copy, which the worker sets once it opens "
            f"the shard ({one_line(outcome.group_refusal)})"
        )
    return lines


def _facts(group: str | None, outcome: ResetOutcome) -> dict[str, object]:
    reset, archived = outcome.reset, outcome.archived
    return {
        "group": group,
        "topic": reset.partition.topic,
        "partition": reset.partition.number,
        "new_offset": reset.target,
        "current_offset": reset.current,
        "effect": reset.effect,
        "archived_rows": reset.rows,
        "clamped": reset.clamped or None,
        "error": None if outcome.error is None else one_line(outcome.error),
        "archived_lineage": None if archived is None else archived.lineage,
        "group_refusal": None if outcome.group_refusal is None else one_line(outcome.group_refusal),
    }
