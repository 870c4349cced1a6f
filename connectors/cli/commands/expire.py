"""`shardlog expire`: delete rows by retention and caps, or say what would be deleted."""

from pathlib import Path
from typing import Final

import typer

from connectors.cli.output.formatting import counted, format_primary
from connectors.cli.output.printing import print_json, print_line, print_table
from storage_core import UNITS_PER_SECOND, ExpiryReport, Stream, SystemClock, Unit

_COLUMNS: Final = (
    "shard",
    "floor",
    "start",
    "windows",
    "rows",
    "late",
    "blocks",
    "bytes",
    "hidden",
)


def expire(*, root: Path, stream: str, now: int | None, execute: bool, as_json: bool) -> None:
    """Delete rows by retention and caps; a worker does so by itself."""
    with Stream.open(root, stream) as opened:
        options = opened.options
        report = opened.expire(now, dry_run=not execute)
    floor = max((one.floor_after for one in report.shards.values() if one.floor_after), default=0)
    if floor > _clock_in(options.unit):
        typer.echo(f"shardlog: {_of_the_future(floor, options.unit, execute=execute)}", err=True)
    if as_json:
        print_json([_fields(report, shard) for shard in report.shards])
        return
    if (options.retention, options.records_max, options.bytes_max) == (None, None, None):
        print_line(
            f"{stream!r} keeps all rows: it has neither retention nor caps; set one with "
            "`shardlog alter` (retention_hours=168)"
        )
        return
    print_table(_COLUMNS, [list(_fields(report, shard).values()) for shard in report.shards])
    print_line(_closing_line(report, floor, options.unit))


def _closing_line(report: ExpiryReport, floor: int, unit: Unit) -> str:
    older = f" of those older than {format_primary(floor, unit)}" if floor else ""
    gone = counted(report.rows, "row")
    if report.hidden is None:
        have = "has" if report.rows == 1 else "have"
        return f"{gone} {have} been deleted from disk{older}; the rest is hidden"
    hidden, them = counted(report.hidden, "row"), "it" if report.hidden == 1 else "them"
    return (
        f"nothing was deleted{older}: {hidden} would be hidden from all reads, and {gone} deleted "
        f"from disk; add --execute to delete {them}"
    )


def _clock_in(unit: Unit) -> int:
    return SystemClock().now_ns() // (10**9 // UNITS_PER_SECOND.get(unit, 1))


def _of_the_future(floor: int, unit: Unit, *, execute: bool) -> str:
    """Return what a floor after the clock's time does, since it never falls again."""
    hidden = "is" if execute else "would be"
    return (
        f"the floor {floor} ({format_primary(floor, unit)}) lies after the clock's time: all that "
        f"is older {hidden} expired for good, records that are yet to come too; times count {unit}"
    )


def _fields(report: ExpiryReport, shard: int) -> dict[str, int | None]:
    expired = report.shards[shard]
    return {
        "shard": shard,
        "floor": expired.floor_after,
        "start": expired.start_after,
        "windows": expired.windows,
        "rows": expired.rows,
        "late": expired.late_rows,
        "blocks": expired.blocks,
        "bytes": expired.bytes,
        "hidden": expired.hidden,
    }
