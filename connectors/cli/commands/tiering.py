"""`shardlog seal`, `compact`, `trim`, `parts`: older rows as columns."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.progress_bar import progress_bar
from connectors.cli.output.shown import counted, shown_primary
from storage_core import (
    UNITS_PER_SECOND,
    InvalidRequestError,
    Mended,
    Part,
    Stream,
    StreamReader,
    Unit,
)

# What fits a terminal of 80 columns; what may be cut there stands last.
_COLUMNS: Final = ("shard", "file", "level", "rows", "bytes", "a row", "from (UTC)")
_WIDE: Final = (
    *("shard", "file", "kind", "level", "rows", "bytes", "bytes a row"),
    *("first", "end", "from", "to", "sealed"),
)
_TO_THE_MINUTE: Final = len("2026-01-31T12:00")


def seal(*, root: Path, stream: str, rows_min: int, mend: bool, as_json: bool) -> None:
    """Make parts of all rows that are not sealed yet: files of Parquet, sorted by id and time."""
    with (
        Stream.open(root, stream) as opened,
        progress_bar(sum(opened.unsealed().values()), "row") as progress,
    ):
        report = opened.seal(rows_min, progress, mend=mend)
    if as_json:
        print_json(
            [
                {
                    "shard": number,
                    "sealed_before": one.sealed_before,
                    "sealed": one.sealed,
                    "rows": one.rows,
                    "parts": len(one.parts),
                    "mended": [each.part.file_name for each in report.mended.get(number, ())],
                }
                for number, one in report.shards.items()
            ]
        )
        return
    for number, each in report.mended.items():
        for one in each:
            print_line(_mended(number, one))
    if not report.rows:
        few = "no rows are waiting"
        if rows_min > 1:
            few = f"no shard has {counted(rows_min, 'row')} that wait to be sealed"
        print_line(f"{stream!r} is sealed: {few}")
        return
    size = sum(part.size for one in report.shards.values() for part in one.parts)
    print_line(
        f"{counted(report.rows, 'row')} sealed in {counted(report.parts, 'part')}, "
        f"{size / report.rows:.1f} bytes a row"
    )


def compact(*, root: Path, stream: str, as_json: bool) -> None:
    """Join small neighbouring parts to larger ones, so that queries open few files."""
    with Stream.open(root, stream) as opened:
        with progress_bar(None, "row") as progress:
            report = opened.compact(progress)
        left = len(opened.parts())
    if as_json:
        print_json(
            [
                {
                    "shard": number,
                    "joined": sum(len(one.parts) for one in steps),
                    "made": [one.successor.file_name for one in steps],
                    "rows": sum(one.successor.rows for one in steps),
                    "bytes": sum(one.successor.size for one in steps),
                }
                for number, steps in report.shards.items()
            ]
        )
        return
    if not report.steps:
        print_line(f"{stream!r} has nothing to join: it has {counted(left, 'part')}")
        return
    print_line(
        f"{counted(report.parts_fewer + left, 'part')} became {left:,}; written again: "
        f"{counted(report.rows, 'row')}, {counted(report.bytes, 'byte')}"
    )


def trim(*, root: Path, stream: str, keep_hot_hours: float, as_json: bool) -> None:
    """Free the log of blocks whose rows are in parts: from then on parts answer in their place."""
    with Stream.open(root, stream) as opened:
        waiting = sum(opened.untrimmed().values())
        with progress_bar(waiting, "row") as progress:
            report = opened.trim(_hours(keep_hot_hours), progress)
        has_parts = bool(opened.parts())
    if as_json:
        print_json(
            [
                {
                    "shard": number,
                    "trimmed_before": one.trimmed_before,
                    "trimmed": one.trimmed,
                    "rows": one.rows,
                    "blocks": one.blocks,
                    "bytes": one.bytes,
                }
                for number, one in report.shards.items()
            ]
        )
        return
    if not report.blocks:
        if not has_parts:
            why = f"it has no parts, `shardlog seal {root} {stream}` makes some"
        elif not waiting:
            why = "no block of the log has rows that are in parts"
        else:
            why = "no block that old has all its rows in parts"
        print_line(f"{stream!r} has nothing to trim: {why}")
        return
    print_line(
        f"{counted(report.blocks, 'block')} of {counted(report.bytes, 'byte')} trimmed; in parts "
        f"alone: {counted(report.rows, 'row')}"
    )


def parts(*, root: Path, stream: str, wide: bool, as_json: bool) -> None:
    """List the parts of a stream: its files of Parquet, which any tool may read."""
    with StreamReader.open(root, stream) as reader:
        found = reader.parts()
        unit = reader.options.unit
    if as_json:
        print_json([_fields(one) for one in found])
        return
    if not found:
        print_line(f"{stream!r} has no parts: `shardlog seal {root} {stream}` makes some")
        return
    if wide:
        print_table(_WIDE, [_wide_row(one, unit) for one in found])
    else:
        print_table(columns_of(unit), [row_of(one, unit) for one in found])


def _mended(shard: int, one: Mended) -> str:
    begin = f"shard {shard}: {one.part.file_name} {one.what}; "
    if one.successor is None:
        return begin + "taken away: none of its rows is left, they expired or were given up"
    return begin + f"made again as {one.successor.file_name}, {counted(one.successor.rows, 'row')}"


def _hours(count: float) -> timedelta:
    try:
        return timedelta(hours=count)
    except (OverflowError, ValueError) as error:
        message = f"--keep-hot-hours: {count} hours are no span of time"
        raise InvalidRequestError(message) from error


def _fields(part: Part) -> dict[str, Any]:
    entry = part.entry
    return {
        "shard": part.shard,
        "part": entry.number,
        "kind": entry.kind or None,
        "is_flagged": entry.is_flagged,
        "level": entry.level,
        "rows": entry.rows,
        "bytes": entry.size,
        "first": entry.first,
        "end": entry.last + 1,
        "primary_min": entry.primary_min,
        "primary_max": entry.primary_max,
        "sealed_at_ms": entry.sealed_at_ms,
        "file": str(part.path),
    }


def columns_of(unit: Unit) -> Sequence[str]:
    """Return what is shown of a part where nothing is said."""
    return _COLUMNS if unit in UNITS_PER_SECOND else (*_COLUMNS[:-1], "from")


def row_of(part: Part, unit: Unit) -> list[str | int | None]:
    """Return the cells of a part."""
    entry = part.entry
    since = shown_primary(entry.primary_min, unit)
    return [
        part.shard,
        part.path.name,
        entry.level,
        entry.rows,
        entry.size,
        f"{entry.size / entry.rows:.1f}",
        since[:_TO_THE_MINUTE] if isinstance(since, str) else since,
    ]


def _wide_row(part: Part, unit: Unit) -> list[str | int | None]:
    entry = part.entry
    kind = entry.kind or "raw"
    return [
        part.shard,
        part.path.name,
        f"{kind}, late" if entry.is_flagged else kind,
        entry.level,
        entry.rows,
        entry.size,
        f"{entry.size / entry.rows:.1f}",
        entry.first,
        entry.last + 1,
        shown_primary(entry.primary_min, unit),
        shown_primary(entry.primary_max, unit),
        shown_primary(entry.sealed_at_ms, "ms"),
    ]
