"""`shardlog status`: how the shards of streams stand, and whether anything is lost.

The figures are looked at one after the other beside a writer that goes on: `records` and its
neighbours may count what is not committed yet. Lost ranges end the command with exit code 5, and
what workers have set aside with that of the oldest fault, so that a script notices; gaps, which the
source no longer had, do not. The ends of Kafka's partitions are asked for where brokers are named;
where there is no answer they are left out. That, what is set aside, and what an open transaction
holds back is told on standard error, a line each.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import typer

from connectors.cli.commands.each_stream import of_each_stream
from connectors.cli.exit_codes import exit_code_of_fault
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.log_ends import Brokers
from connectors.cli.output.printing import print_json, print_lines, print_table
from connectors.cli.output.shard_status import ShardStatus, noted, shard_statuses, with_log_end
from connectors.cli.output.shown import counted, shown_age, shown_bytes, shown_primary, shown_ranges
from connectors.ingest.assignment.quarantine_notes import QuarantineNote, QuarantineNotes
from storage_core import Environment, LostRangeError, Unit, root_id

_Cell = str | int | None
# How each column is told, of a shard and the unit of its primaries.
_COLUMNS: Final[Mapping[str, Callable[[ShardStatus, Unit], _Cell]]] = {
    "stream": lambda shard, _: shard.stream,
    "shard": lambda shard, _: shard.shard,
    "committed": lambda shard, _: shard.committed,
    "log end": lambda shard, _: shard.log_end,
    "lag": lambda shard, _: shard.lag,
    "held back": lambda shard, _: shard.held_back,
    "set aside": lambda shard, _: None if shard.set_aside is None else str(shard.set_aside["kind"]),
    "newest": lambda shard, _: shown_age(shard.age_s),
    "records": lambda shard, _: shard.records,
    "late": lambda shard, _: shard.late,
    "unsealed": lambda shard, _: shard.unsealed,
    "size": lambda shard, _: shown_bytes(shard.bytes),
    "dead letters": lambda shard, _: shard.dead_letters_waiting,
    "forwarded": lambda shard, _: shard.dead_letters_forwarded,
    "dropped": lambda shard, _: shard.dead_letters_dropped,
    "first": lambda shard, unit: shown_primary(shard.first, unit),
    "last": lambda shard, unit: shown_primary(shard.last, unit),
    "ahead": lambda shard, _: shard.ahead,
    "expired": lambda shard, _: shard.expired,
    "gaps": lambda shard, _: len(shard.gaps),
    "lost": lambda shard, _: shown_ranges(shard.lost) or None,
}
# Told only where a shard has something to tell: a row fits a terminal.
_LEFT_OUT_IF_EMPTY: Final = (
    "log end",
    "held back",
    "set aside",
    "late",
    "unsealed",
    "dead letters",
    "forwarded",
    "dropped",
    "ahead",
    "expired",
    "gaps",
    "lost",
)


def status(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str | None,
    as_json: bool,
    bootstrap: str | None,
    kafka: list[str] | None,
    broker_wait: float,
) -> int:
    """Show how each shard stands; the exit code is 5 where addresses are lost."""
    own_id, now_ns = root_id(root), Environment().clock.now_ns()
    notes = [note for note in QuarantineNotes(root).read() if stream in (None, note.stream)]
    brokers = Brokers(bootstrap, kafka_settings(kafka), broker_wait)

    def look(name: str) -> list[tuple[ShardStatus, Unit]]:
        found = list(shard_statuses(root, own_id, name, now_ns))
        # IMPORTANT: after the shards, or a worker that goes on is taken for a log that was cut.
        ends = brokers.log_ends(root, name)
        return [
            (with_log_end(shard, ends, noted(notes, name, shard.shard)), unit)
            for shard, unit in found
        ]

    shards, error = of_each_stream(root, stream, look)
    if as_json:
        facts = [asdict(shard) for shard, _ in shards]
        print_json([*facts, *_without_shards(root, own_id, notes, facts)])
    elif shards or error is None:
        print_lines([f"root {root.absolute()} (id {own_id})"])
        print_table(*_table(shards))
    if brokers.failure is not None:
        typer.echo(f"shardlog: log ends are not known: {brokers.failure}", err=True)
    for line in (*_held_back(shards), *_unknown(shards), *(note.line() for note in notes)):
        typer.echo(line, err=True)
    if error is not None:
        raise error
    for shard, _ in shards:
        _refuse_lost(shard)
    oldest = min(notes, key=lambda note: note.since_ms, default=None)
    return 0 if oldest is None else exit_code_of_fault(oldest.kind)


def _held_back(shards: Iterable[tuple[ShardStatus, Unit]]) -> Iterable[str]:
    for shard, _ in shards:
        if shard.held_back:
            held, end = counted(shard.held_back, "offset"), shard.log_end
            yield (
                f"shardlog: {shard.stream} shard {shard.shard}: an open transaction holds back "
                f"{held}, from {shard.last_stable_offset} to the log's end {end}, until its "
                "producer ends it or Kafka's transaction timeout does"
            )


def _unknown(shards: Iterable[tuple[ShardStatus, Unit]]) -> Iterable[str]:
    """Yield a line for each stream of which the lag is not known; what is set aside has its own."""
    told = [(one.stream, one.lag_unknown) for one, _ in shards if one.set_aside is None]
    for stream, reason in dict.fromkeys(told):
        if reason is not None:
            yield f"shardlog: {stream}: lag is not known: {reason}"


def _without_shards(
    root: Path, own_id: str, notes: Iterable[QuarantineNote], facts: Sequence[Mapping[str, Any]]
) -> Iterable[dict[str, Any]]:
    """Yield what is set aside of streams that are not there, as other shards are told."""
    there = {(one["stream"], one["shard"]) for one in facts}
    streams = {one["stream"] for one in facts}
    for note in notes:
        if (note.stream, note.shard) in there or (note.shard < 0 and note.stream in streams):
            continue
        yield {
            **dict.fromkeys(each.name for each in fields(ShardStatus)),
            "root": str(root.absolute()),
            "root_id": own_id,
            "stream": note.stream,
            "shard": None if note.shard < 0 else note.shard,
            "set_aside": note.facts(),
        }


def _table(shards: Collection[tuple[ShardStatus, Unit]]) -> tuple[list[str], list[list[_Cell]]]:
    """Return the names of the columns to show, and the rows."""
    columns = {name: [told(*shard) for shard in shards] for name, told in _COLUMNS.items()}
    kept = {
        name: cells
        for name, cells in columns.items()
        if name not in _LEFT_OUT_IF_EMPTY or any(_says_something(name, cell) for cell in cells)
    }
    return list(kept), [list(row) for row in zip(*kept.values(), strict=True)]


def _says_something(column: str, value: _Cell) -> bool:
    # A log that ends at 0 is an answer; a counter of 0 is none.
    return value is not None if column == "log end" else bool(value)


def _refuse_lost(shard: ShardStatus) -> None:
    for start, end in shard.lost:
        message = (
            "acknowledged records are lost; accept the loss with `shardlog accept-loss` to read "
            "what is left"
        )
        raise LostRangeError(message, stream=shard.stream, shard=shard.shard, start=start, end=end)
