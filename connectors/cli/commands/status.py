"""`shardlog status`: the state of each shard, its lag, faults and lost ranges.

The figures are read one after the other while a writer goes on: `records` and its neighbours may
count rows that are not committed yet. Lost ranges end the command with exit code 5, quarantined
partitions with that of the oldest fault; gaps, which the source no longer had, do not. Log ends are
fetched where brokers are named; without an answer they are left out. Standard error has a line for
each quarantined partition, for an open transaction, and for a lag that is not known.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any, Final

import typer

from connectors.cli.commands.each_stream import of_streams
from connectors.cli.exit_codes import exit_code_of_fault
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.input.roots import NamedRoot, root_named, sizes_of
from connectors.cli.log_ends import Brokers, LogEnds
from connectors.cli.output.formatting import (
    counted,
    format_age,
    format_bytes,
    format_primary,
    format_ranges,
)
from connectors.cli.output.printing import print_json, print_lines, print_table
from connectors.cli.output.shard_status import (
    ShardPlaces,
    ShardStatus,
    shard_statuses,
    statuses_of,
    with_log_end,
)
from connectors.group.partition_files import note_of
from connectors.group.pauses import Pause, Pauses
from connectors.group.quarantine_notes import QuarantineNote, QuarantineNotes
from connectors.kafka.terms import Partition
from storage_core import LostRangeError, StreamReader, SystemClock, Unit

_Cell = str | int | None


def _kind_of_fault(shard: ShardStatus) -> str | None:
    return None if shard.quarantined is None else str(shard.quarantined["kind"])


# How each column is printed, of a shard and the unit of its primaries.
_COLUMNS: Final[Mapping[str, Callable[[ShardStatus, Unit], _Cell]]] = {
    "stream": lambda shard, _: shard.stream,
    "shard": lambda shard, _: shard.shard,
    "committed": lambda shard, _: shard.committed,
    "log end": lambda shard, _: shard.log_end,
    "lag": lambda shard, _: shard.lag,
    "held back": lambda shard, _: shard.held_back,
    "quarantined": lambda shard, _: _kind_of_fault(shard),
    "paused": lambda shard, _: None if shard.paused is None else "yes",
    "newest": lambda shard, _: format_age(shard.age_s),
    "records": lambda shard, _: shard.records,
    "late": lambda shard, _: shard.late,
    "unsealed": lambda shard, _: shard.unsealed,
    "unpublished": lambda shard, _: shard.unpublished,
    "size": lambda shard, _: format_bytes(shard.bytes),
    "dead letters": lambda shard, _: shard.dead_letters_waiting,
    "forwarded": lambda shard, _: shard.dead_letters_forwarded,
    "dropped": lambda shard, _: shard.dead_letters_dropped,
    "retried": lambda shard, _: shard.dead_letters_retried,
    "discarded": lambda shard, _: shard.dead_letters_discarded,
    "first": lambda shard, unit: format_primary(shard.first, unit),
    "last": lambda shard, unit: format_primary(shard.last, unit),
    "ahead": lambda shard, _: shard.ahead,
    "expired": lambda shard, _: shard.expired,
    "gaps": lambda shard, _: len(shard.gaps),
    "lost": lambda shard, _: format_ranges(shard.lost) or None,
}
# Printed only where some shard has a value, so that a row fits a terminal.
_LEFT_OUT_IF_EMPTY: Final = (
    "log end",
    "held back",
    "quarantined",
    "paused",
    "late",
    "unsealed",
    "unpublished",
    "dead letters",
    "forwarded",
    "dropped",
    "retried",
    "discarded",
    "ahead",
    "expired",
    "gaps",
    "lost",
)


def status(  # noqa: PLR0913 - one parameter an option
    *,
    root: str,
    stream: str | None,
    as_json: bool,
    bootstrap: str | None,
    kafka: list[str] | None,
    broker_wait: float,
) -> int:
    """Show the state of each shard; the exit code is 5 where a range is lost."""
    source, now_ns = root_named(root), SystemClock().now_ns()
    faults, pauses = _kept_by_workers(source, stream)
    notes = list(faults.values())
    brokers = Brokers(bootstrap, kafka_settings(kafka), broker_wait)

    def look(name: str) -> list[tuple[ShardStatus, Unit]]:
        statuses, ends = _statuses_and_ends(source, name, now_ns, brokers)
        return [
            (
                with_log_end(
                    shard,
                    ends,
                    note_of(faults, Partition(name, shard.shard)),
                    note_of(pauses, Partition(name, shard.shard)),
                ),
                unit,
            )
            for shard, unit in statuses
        ]

    shards, error = of_streams(source.streams if stream is None else [stream], look)
    if as_json:
        facts = [asdict(shard) for shard, _ in shards]
        print_json([*facts, *_without_shards(source, notes, facts)])
    elif shards or error is None:
        print_lines([f"root {source.place} (id {source.root_id})"])
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


def _kept_by_workers(
    source: NamedRoot, stream: str | None
) -> tuple[dict[Partition, QuarantineNote], dict[Partition, Pause]]:
    """Return what workers and operators keep beside the streams; a server does not tell it."""
    if source.directory is None:
        return {}, {}
    notes = QuarantineNotes(source.directory).read()
    return (
        {note.partition: note for note in notes if stream in (None, note.stream)},
        {pause.partition: pause for pause in Pauses(source.directory).read()},
    )


def _statuses_and_ends(
    source: NamedRoot, name: str, now_ns: int, brokers: Brokers
) -> tuple[list[tuple[ShardStatus, Unit]], LogEnds]:
    """Return the shards of a stream, and what Kafka says of their partitions."""
    if source.directory is not None:
        statuses = list(shard_statuses(source.directory, source.root_id, name, now_ns))
        # IMPORTANT: after the shards, or a worker that goes on is taken for a log that was cut.
        return statuses, brokers.log_ends(source.directory, name)
    with StreamReader.open(source.place, name) as reader:
        places = ShardPlaces(source.place, source.root_id, name)
        statuses = list(statuses_of(reader, places, partial(sizes_of, reader), now_ns))
        shards = [shard.shard for shard, _ in statuses]
        return statuses, brokers.log_ends_of(reader.origin, shards)


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
    """Yield a line for each stream of unknown lag; quarantined shards have a line already."""
    reasons = [(one.stream, one.lag_unknown) for one, _ in shards if not one.quarantined]
    for stream, reason in dict.fromkeys(reasons):
        if reason is not None:
            yield f"shardlog: {stream}: lag is not known: {reason}"


def _without_shards(
    source: NamedRoot, notes: Iterable[QuarantineNote], facts: Sequence[Mapping[str, Any]]
) -> Iterable[dict[str, Any]]:
    """Yield quarantined partitions of streams that do not exist, in the form of other shards."""
    listed = {(one["stream"], one["shard"]) for one in facts}
    streams = {one["stream"] for one in facts}
    for note in notes:
        if (note.stream, note.shard) in listed or (note.shard < 0 and note.stream in streams):
            continue
        yield {
            **dict.fromkeys(each.name for each in fields(ShardStatus)),
            "root": source.place,
            "root_id": source.root_id,
            "stream": note.stream,
            "shard": None if note.shard < 0 else note.shard,
            "quarantined": note.facts(),
        }


def _table(shards: Collection[tuple[ShardStatus, Unit]]) -> tuple[list[str], list[list[_Cell]]]:
    """Return the names of the columns to print, and the rows."""
    columns = {name: [cell(*shard) for shard in shards] for name, cell in _COLUMNS.items()}
    shown_columns = {
        name: cells
        for name, cells in columns.items()
        if name not in _LEFT_OUT_IF_EMPTY or any(_has_value(name, cell) for cell in cells)
    }
    return list(shown_columns), [list(row) for row in zip(*shown_columns.values(), strict=True)]


def _has_value(column: str, value: _Cell) -> bool:
    # A log that ends at 0 is an answer; a counter of 0 is none.
    return value is not None if column == "log end" else bool(value)


def _refuse_lost(shard: ShardStatus) -> None:
    for start, end in shard.lost:
        message = (
            "acknowledged records are lost; accept the loss with `shardlog accept-loss` to read "
            "what is left"
        )
        raise LostRangeError(message, stream=shard.stream, shard=shard.shard, start=start, end=end)
