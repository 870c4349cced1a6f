"""`shardlog status`: how the shards of streams stand, and whether anything is lost.

The figures are looked at one after the other beside a writer that goes on: `records` and its
neighbours may count what is not committed yet. Lost ranges end the command with exit code 5, so
that a script notices; gaps, which the source no longer had, do not. The ends of Kafka's partitions
are asked for where brokers are named; without an answer they are left out, and that is told. What
workers have set aside is told on standard error, a line each.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from connectors.cli.arguments import AsJson, KafkaSettings, OneStream, Root, kafka_settings
from connectors.cli.disk_usage import shown_bytes
from connectors.cli.printing import print_json, print_lines, print_table
from connectors.cli.shard_status import ShardStatus, shard_statuses, with_log_end
from connectors.cli.shown_times import shown_age, shown_primary
from connectors.ingest.set_aside import WHOLE_TOPIC
from connectors.ingest.set_aside_notes import SetAsideNote, SetAsideNotes
from connectors.kafka_client import Admin, Partition
from storage_core import (
    Environment,
    LostRangeError,
    ShardlogError,
    StreamReader,
    Unit,
    list_streams,
    root_id,
)

_COLUMNS: Final = (
    "stream",
    "shard",
    "committed",
    "log end",
    "lag",
    "newest",
    "records",
    "late",
    "size",
    "dead letters",
    "first",
    "last",
    "ahead",
    "expired",
    "gaps",
    "lost",
)
# Told only where a shard has something to tell: a row fits a terminal.
_LEFT_OUT_IF_EMPTY: Final = (
    "log end",
    "late",
    "dead letters",
    "ahead",
    "expired",
    "gaps",
    "lost",
)
_Row = list[str | int | None]

Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="KAFKA_BOOTSTRAP",
        help="Kafka brokers; with them, log ends and lag are shown.",
    ),
]


BrokerWait = Annotated[
    float, typer.Option(metavar="S", min=0.1, help="How long to wait for a broker, in seconds.")
]


def status(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: OneStream = None,
    as_json: AsJson = False,
    bootstrap: Brokers = None,
    kafka: KafkaSettings = None,
    broker_wait: BrokerWait = 5.0,
) -> None:
    """Show how each shard stands; the exit code is 5 where addresses are lost.

    `newest` is the age of the newest record; `first` and `last` are the times of the rows that
    arrived first and last. Counters that are 0 in all shards are left out, but not of the JSON.

    Example: shardlog status ./data telemetry --json
    """
    own_id, now_ns = root_id(root), Environment().clock.now_ns()
    shards: list[tuple[Unit, ShardStatus]] = []
    errors: list[ShardlogError] = []
    notes = [note for note in SetAsideNotes(root).read() if stream in (None, note.stream)]
    brokers = _Brokers(bootstrap, kafka_settings(kafka), broker_wait)
    for name in list_streams(root) if stream is None else [stream]:
        try:
            found = list(shard_statuses(root, own_id, name, now_ns))
            # IMPORTANT: after the shards, or a worker that goes on is taken for a log that was cut.
            ends = brokers.log_ends(root, name)
        except ShardlogError as error:
            errors.append(error)
            continue
        for unit, shard in found:
            is_foreign = _is_foreign(notes, name, shard.shard)
            shards.append((unit, with_log_end(shard, ends.get(shard.shard), is_foreign=is_foreign)))
    if as_json:
        print_json([asdict(shard) for _, shard in shards])
    elif shards or not errors:
        print_lines([f"root {root.absolute()} (id {own_id})"])
        print_table(*_without_empty([_row(*shard) for shard in shards]))
    if brokers.failure is not None:
        typer.echo(f"shardlog: log ends are not known: {brokers.failure}", err=True)
    for note in notes:
        typer.echo(note.line(), err=True)
    if errors:
        raise errors[0]
    for _, shard in shards:
        _refuse_lost(shard)


class _Brokers:
    """Asks Kafka for the ends of partitions, until it does not answer once."""

    def __init__(self, bootstrap: str | None, settings: Mapping[str, str], wait_s: float) -> None:
        self._wait_s = wait_s
        self._settings = None if bootstrap is None else {**settings, "bootstrap.servers": bootstrap}
        self._admin: Admin | None = None
        self.failure: ShardlogError | None = None

    def log_ends(self, root: Path, name: str) -> dict[int, int]:
        """Return the ends of a stream's partitions, as far as they are known."""
        with StreamReader.open(root, name) as reader:
            if self._settings is None or self.failure is not None or reader.origin is None:
                return {}
            asked = [Partition(reader.origin.topic, number) for number in reader.committed()]
        try:
            if self._admin is None:
                self._admin = Admin(self._settings)
                self._admin.await_broker(self._wait_s)
            found = self._admin.log_ends(asked)
        except ShardlogError as error:
            self.failure = error
            return {}
        return {partition.number: end for partition, end in found.items()}


def _is_foreign(notes: Collection[SetAsideNote], stream: str, shard: int) -> bool:
    return any(
        note.stream == stream and note.kind == "foreign" and note.shard in (shard, WHOLE_TOPIC)
        for note in notes
    )


def _without_empty(rows: list[_Row]) -> tuple[list[str], list[_Row]]:
    """Return the names of the columns to show, and the rows with no others."""
    kept = [
        at
        for at, name in enumerate(_COLUMNS)
        if name not in _LEFT_OUT_IF_EMPTY or any(_says_something(name, row[at]) for row in rows)
    ]
    return [_COLUMNS[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _says_something(column: str, value: str | int | None) -> bool:
    # A log that ends at 0 is an answer; a counter of 0 is none.
    return value is not None if column == "log end" else bool(value)


def _row(unit: Unit, shard: ShardStatus) -> _Row:
    return [
        shard.stream,
        shard.shard,
        shard.committed,
        shard.log_end,
        shard.lag,
        shown_age(shard.age_s),
        shard.records,
        shard.late,
        shown_bytes(shard.bytes),
        shard.dead_letters,
        shown_primary(shard.first, unit),
        shown_primary(shard.last, unit),
        shard.ahead,
        shard.expired,
        len(shard.gaps),
        " ".join(f"[{start},{end})" for start, end in shard.lost) or None,
    ]


def _refuse_lost(shard: ShardStatus) -> None:
    for start, end in shard.lost:
        message = (
            "acknowledged records are lost; accept the loss with `shardlog accept-loss` to read "
            "what is left"
        )
        raise LostRangeError(message, stream=shard.stream, shard=shard.shard, start=start, end=end)
