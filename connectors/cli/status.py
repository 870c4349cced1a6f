"""`shardlog status`: how the shards of streams stand, and whether anything is lost.

The figures are looked at one after the other beside a writer that goes on: `records` and its
neighbours may count what is not committed yet. Lost ranges end the command with exit code 5, so
that a script notices; gaps, which the source no longer had, do not. The ends of Kafka's partitions
are asked for where brokers are named; without an answer they are left out, and that is told. What
workers have set aside is told on standard error, a line each.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer

from connectors import kafka_client
from connectors.cli.arguments import kafka_settings
from connectors.cli.each_stream import of_each_stream
from connectors.cli.printing import print_json, print_lines, print_table
from connectors.cli.shard_status import ShardStatus, shard_statuses, with_log_end
from connectors.cli.shown import shown_age, shown_bytes, shown_primary, shown_ranges
from connectors.ingest.set_aside_notes import WHOLE_TOPIC, SetAsideNote, SetAsideNotes
from storage_core import Environment, LostRangeError, ShardlogError, Unit, describe_stream, root_id

_Cell = str | int | None
# How each column is told, of a shard and the unit of its primaries.
_COLUMNS: Final[Mapping[str, Callable[[ShardStatus, Unit], _Cell]]] = {
    "stream": lambda shard, _: shard.stream,
    "shard": lambda shard, _: shard.shard,
    "committed": lambda shard, _: shard.committed,
    "log end": lambda shard, _: shard.log_end,
    "lag": lambda shard, _: shard.lag,
    "newest": lambda shard, _: shown_age(shard.age_s),
    "records": lambda shard, _: shard.records,
    "late": lambda shard, _: shard.late,
    "unsealed": lambda shard, _: shard.unsealed,
    "size": lambda shard, _: shown_bytes(shard.bytes),
    "dead letters": lambda shard, _: shard.dead_letters,
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
    "late",
    "unsealed",
    "dead letters",
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
) -> None:
    """Show how each shard stands; the exit code is 5 where addresses are lost."""
    own_id, now_ns = root_id(root), Environment().clock.now_ns()
    notes = [note for note in SetAsideNotes(root).read() if stream in (None, note.stream)]
    brokers = _Brokers(bootstrap, kafka_settings(kafka), broker_wait)

    def look(name: str) -> list[tuple[ShardStatus, Unit]]:
        found = list(shard_statuses(root, own_id, name, now_ns))
        # IMPORTANT: after the shards, or a worker that goes on is taken for a log that was cut.
        ends = brokers.log_ends(root, name)
        return [
            (
                with_log_end(
                    shard, ends.get(shard.shard), is_foreign=_is_foreign(notes, name, shard.shard)
                ),
                unit,
            )
            for shard, unit in found
        ]

    shards, error = of_each_stream(root, stream, look)
    if as_json:
        print_json([asdict(shard) for shard, _ in shards])
    elif shards or error is None:
        print_lines([f"root {root.absolute()} (id {own_id})"])
        print_table(*_table(shards))
    if brokers.failure is not None:
        typer.echo(f"shardlog: log ends are not known: {brokers.failure}", err=True)
    for note in notes:
        typer.echo(note.line(), err=True)
    if error is not None:
        raise error
    for shard, _ in shards:
        _refuse_lost(shard)


class _Brokers:
    """Asks Kafka for the ends of partitions, until it does not answer once."""

    def __init__(self, bootstrap: str | None, settings: Mapping[str, str], wait_s: float) -> None:
        self._wait_s = wait_s
        self._settings = None if bootstrap is None else {**settings, "bootstrap.servers": bootstrap}
        self._admin: kafka_client.Admin | None = None
        self.failure: ShardlogError | None = None

    def log_ends(self, root: Path, name: str) -> dict[int, int]:
        """Return the ends of a stream's partitions, as far as they are known."""
        if self._settings is None or self.failure is not None:
            return {}
        stream = describe_stream(root, name)
        if stream.origin is None:
            return {}
        partitions = [
            kafka_client.Partition(stream.origin.topic, number) for number in stream.shards
        ]
        try:
            if self._admin is None:
                # The client is loaded here: most who look at a root have no broker asked.
                self._admin = kafka_client.Admin(self._settings)
                self._admin.await_broker(self._wait_s)
            ends = self._admin.log_ends(partitions)
        except ShardlogError as error:
            self.failure = error
            return {}
        return {partition.number: end for partition, end in ends.items()}


def _is_foreign(notes: Collection[SetAsideNote], stream: str, shard: int) -> bool:
    return any(
        note.stream == stream and note.kind == "foreign" and note.shard in (shard, WHOLE_TOPIC)
        for note in notes
    )


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
