"""`shardlog expire`: let what a stream no longer keeps go, or tell what would go."""

from pathlib import Path
from typing import Final

import typer

from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.shown import counted, shown_primary
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
    """Let what the stream no longer keeps go, by retention and caps; a worker does so by itself."""
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
            f"{stream!r} keeps all: it has neither retention nor caps, `shardlog alter` gives it "
            "some (retention_hours=168)"
        )
        return
    print_table(_COLUMNS, [list(_fields(report, shard).values()) for shard in report.shards])
    print_line(_closing_line(report, floor, options.unit))


def _closing_line(report: ExpiryReport, floor: int, unit: Unit) -> str:
    older = f" of what is older than {shown_primary(floor, unit)}" if floor else ""
    gone = counted(report.rows, "row")
    if report.hidden is None:
        have = "has" if report.rows == 1 else "have"
        return f"{gone} {have} gone from the disk{older}; what is left of it is hidden"
    hidden, them = counted(report.hidden, "row"), "it" if report.hidden == 1 else "them"
    return (
        f"nothing has gone{older}: {hidden} would be hidden from all reads, and {gone} leave the "
        f"disk; add --execute to let {them} go"
    )


def _clock_in(unit: Unit) -> int:
    return SystemClock().now_ns() // (10**9 // UNITS_PER_SECOND.get(unit, 1))


def _of_the_future(floor: int, unit: Unit, *, execute: bool) -> str:
    """Return what a floor after the clock's time does, since it never falls again."""
    hidden = "is" if execute else "would be"
    return (
        f"the floor {floor} ({shown_primary(floor, unit)}) lies after the clock's time: all that "
        f"is older {hidden} expired for good, records that are yet to come too; times count {unit}"
    )


def _fields(report: ExpiryReport, shard: int) -> dict[str, int | None]:
    one = report.shards[shard]
    return {
        "shard": shard,
        "floor": one.floor_after,
        "start": one.start_after,
        "windows": one.windows,
        "rows": one.rows,
        "late": one.late_rows,
        "blocks": one.blocks,
        "bytes": one.bytes,
        "hidden": one.hidden,
    }
