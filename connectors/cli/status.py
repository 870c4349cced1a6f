"""`shardlog status`: how the shards of streams stand, and whether anything is lost.

The figures are looked at one after the other beside a writer that goes on: `records` and its
neighbours may count what is not committed yet. Lost ranges end the command with exit code 5, so
that a script notices; gaps, which the source no longer had, do not. What workers have set aside is
told on standard error, a line each.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import typer

from connectors.cli.arguments import AsJson, OneStream, Root
from connectors.cli.printing import print_json, print_table
from connectors.set_aside_notes import SetAsideNotes
from storage_core import LostRangeError, ShardlogError, StreamReader, list_streams

_COLUMNS: Final = (
    "stream",
    "shard",
    "committed",
    "next offset",
    "records",
    "late",
    "ahead",
    "expired",
    "dead letters",
    "gaps",
    "lost",
)


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """How a shard stands.

    Attributes:
        stream: The stream's name.
        shard: The shard's number.
        committed: Exclusive end of what is durable.
        next_offset: Where the source goes on; None where there is no source.
        records: Records stored, expired ones apart.
        late: Of those, how many came late.
        ahead: Of those, how many came from the future.
        expired: Rows that were expired when they came.
        dead_letters: Records kept raw, since they could not be stored.
        gaps: Ranges of addresses that the source no longer had.
        lost: Ranges of addresses that were acknowledged and are gone.
    """

    stream: str
    shard: int
    committed: int
    next_offset: int | None
    records: int
    late: int
    ahead: int
    expired: int
    dead_letters: int
    gaps: list[tuple[int, int]]
    lost: list[tuple[int, int]]


def status(
    root: Root,
    stream: OneStream = None,
    as_json: AsJson = False,
) -> None:
    """Show how each shard stands; the exit code is 5 where addresses are lost.

    Example: shardlog status ./data telemetry --json
    """
    shards: list[ShardStatus] = []
    errors: list[ShardlogError] = []
    for name in list_streams(root) if stream is None else [stream]:
        try:
            shards += _shards(root, name)
        except ShardlogError as error:
            errors.append(error)
    if as_json:
        print_json([asdict(shard) for shard in shards])
    elif shards or not errors:
        print_table(_COLUMNS, [_row(shard) for shard in shards])
    for note in SetAsideNotes(root).read():
        if stream in (None, note.stream):
            typer.echo(note.line(), err=True)
    if errors:
        raise errors[0]
    for shard in shards:
        _refuse_lost(shard)


def _shards(root: Path, name: str) -> Iterator[ShardStatus]:
    with StreamReader.open(root, name) as reader:
        committed = reader.refresh()
        gaps, lost = reader.gaps(), reader.lost_ranges()
        for number, end in committed.items():
            stats = reader.stats(number)
            source = reader.source(number) or {}
            following = source.get("next")
            yield ShardStatus(
                name,
                number,
                end,
                following if isinstance(following, int) else None,
                stats.records,
                stats.late_arrivals,
                stats.ahead,
                stats.expired,
                stats.dead_letters,
                gaps[number],
                lost[number],
            )


def _row(shard: ShardStatus) -> list[str | int | None]:
    return [
        shard.stream,
        shard.shard,
        shard.committed,
        shard.next_offset,
        shard.records,
        shard.late,
        shard.ahead,
        shard.expired,
        shard.dead_letters,
        len(shard.gaps),
        " ".join(f"[{start},{end})" for start, end in shard.lost) or None,
    ]


def _refuse_lost(shard: ShardStatus) -> None:
    for start, end in shard.lost:
        message = "acknowledged records are lost; refetch them, or accept the loss"
        raise LostRangeError(message, stream=shard.stream, shard=shard.shard, start=start, end=end)
