"""`shardlog seal`, `compact`, `trim` and `parts`: older rows as Parquet files."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from connectors.cli.output.formatting import counted, format_primary
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.progress_bar import progress_bar
from storage_core import (
    UNITS_PER_SECOND,
    InvalidRequestError,
    Part,
    Stream,
    StreamReader,
    TieringStep,
    Unit,
)

# They fit a terminal of 80 columns; the last may be cut there.
_COLUMNS: Final = ("shard", "file", "level", "rows", "bytes", "a row", "from (UTC)")
_WIDE: Final = (
    *("shard", "file", "value schema", "level", "rows", "bytes", "bytes a row"),
    *("first", "end", "from", "to", "sealed"),
)
_NEVER: Final = "is never_cold: its rows live shortly and become no parts"
_TO_THE_MINUTE: Final = len("2026-01-31T12:00")


def seal(*, root: Path, stream: str, rows_min: int, rebuild: bool, as_json: bool) -> None:
    """Write all unsealed rows to parts: Parquet files, sorted by id and time."""
    with Stream.open(root, stream) as opened:
        if opened.options.never_cold and not (rebuild and opened.parts()):
            command = f"shardlog alter {root} {stream} never_cold=false"
            message = f"{stream!r} {_NEVER}; `{command}` lets them"
            raise InvalidRequestError(message)
        never = opened.options.never_cold
        with progress_bar(sum(opened.unsealed().values()), "row") as progress:
            report = opened.seal(rows_min, progress, rebuild=rebuild)
    if as_json:
        print_json(
            [
                {
                    "shard": number,
                    "sealed_before": next((step.start for step in done.of("seal")), done.sealed),
                    "sealed": done.sealed,
                    "rows": sum(step.rows for step in done.of("seal")),
                    "parts": sum(len(step.built) for step in done.of("seal")),
                    "rebuilt": [step.obsolete[0].file_name for step in done.of("rebuild")],
                }
                for number, done in report.shards.items()
            ]
        )
        return
    for number, done in report.shards.items():
        for step in done.of("rebuild"):
            print_line(_rebuilt_line(number, step))
    if not report.rows_sealed:
        few = f"it {_NEVER}" if never else "no rows are unsealed"
        if rows_min > 1 and not never:
            few = f"no shard has {counted(rows_min, 'unsealed row')}"
        print_line(f"{stream!r} has nothing to seal: {few}")
        return
    sealed = [part for step in report.steps if step.kind == "seal" for part in step.built]
    size = sum(part.size for part in sealed)
    print_line(
        f"{counted(report.rows_sealed, 'row')} sealed in {counted(len(sealed), 'part')}, "
        f"{size / report.rows_sealed:.1f} bytes a row"
    )


def compact(*, root: Path, stream: str, as_json: bool) -> None:
    """Merge small neighbouring parts into larger ones, so that queries open few files."""
    with Stream.open(root, stream) as opened:
        with progress_bar(None, "row") as progress:
            report = opened.compact(progress)
        left = len(opened.parts())
    if as_json:
        print_json(
            [
                {
                    "shard": number,
                    "merged": sum(len(step.obsolete) for step in done.steps),
                    "built": [part.file_name for step in done.steps for part in step.built],
                    "rows": sum(step.rows for step in done.steps),
                    "bytes": sum(part.size for step in done.steps for part in step.built),
                }
                for number, done in report.shards.items()
            ]
        )
        return
    if not report.steps:
        print_line(f"{stream!r} has nothing to merge: it has {counted(left, 'part')}")
        return
    before = report.parts_obsolete - report.parts_built + left
    print_line(
        f"{counted(before, 'part')} merged into {left:,}; "
        f"rewritten: {counted(report.rows, 'row')}, {counted(report.bytes_built, 'byte')}"
    )


def trim(*, root: Path, stream: str, keep_hot_hours: float, as_json: bool) -> None:
    """Delete blocks of the log whose rows are in parts; reads then use the parts."""
    with Stream.open(root, stream) as opened:
        waiting = sum(opened.untrimmed().values())
        with progress_bar(waiting, "row") as progress:
            report = opened.trim(_hours(keep_hot_hours), progress)
        has_parts, never = bool(opened.parts()), opened.options.never_cold
    if as_json:
        print_json(
            [
                {
                    "shard": number,
                    "trimmed_before": next((step.start for step in done.steps), done.trimmed),
                    "trimmed": done.trimmed,
                    "rows": sum(step.rows for step in done.steps),
                    "blocks": sum(step.blocks for step in done.steps),
                    "bytes": sum(step.block_bytes for step in done.steps),
                }
                for number, done in report.shards.items()
            ]
        )
        return
    if not report.blocks:
        if not has_parts and never:
            why = f"it {_NEVER}"
        elif not has_parts:
            why = f"it has no parts; `shardlog seal {root} {stream}` writes some"
        elif not waiting:
            why = "no block of the log has rows in parts"
        else:
            why = "no block that old has all its rows in parts"
        print_line(f"{stream!r} has nothing to trim: {why}")
        return
    print_line(
        f"{counted(report.blocks, 'block')} of {counted(report.block_bytes, 'byte')} trimmed; "
        f"only in parts now: {counted(report.rows, 'row')}"
    )


def parts(*, root: Path, stream: str, wide: bool, as_json: bool) -> None:
    """List the parts of a stream: Parquet files that any tool can read."""
    with StreamReader.open(root, stream) as reader:
        part_list = reader.parts()
        unit, never = reader.options.unit, reader.options.never_cold
    if as_json:
        print_json([_fields(one) for one in part_list])
        return
    if not part_list and never:
        print_line(f"{stream!r} {_NEVER}")
        return
    if not part_list:
        print_line(f"{stream!r} has no parts: `shardlog seal {root} {stream}` writes some")
        return
    if wide:
        print_table(_WIDE, [_wide_row(one, unit) for one in part_list])
    else:
        print_table(columns_of(unit), [row_of(one, unit) for one in part_list])


def _rebuilt_line(shard: int, step: TieringStep) -> str:
    damaged = f"shard {shard}: {step.obsolete[0].file_name} {step.damage}; "
    if not step.built:
        return damaged + "removed: none of its rows is left, they expired or were accepted as lost"
    return damaged + f"rebuilt as {step.built[0].file_name}, {counted(step.rows, 'row')}"


def _hours(count: float) -> timedelta:
    try:
        return timedelta(hours=count)
    except (OverflowError, ValueError) as error:
        message = f"--keep-hot-hours: {count} hours are out of range"
        raise InvalidRequestError(message) from error


def _fields(part: Part) -> dict[str, Any]:
    entry = part.entry
    return {
        "shard": part.shard,
        "part": entry.number,
        "value_schema": entry.kind or None,
        "is_out_of_order": entry.is_out_of_order,
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
    """Return the columns of the default table of parts."""
    return _COLUMNS if unit in UNITS_PER_SECOND else (*_COLUMNS[:-1], "from")


def row_of(part: Part, unit: Unit) -> list[str | int | None]:
    """Return the cells of a part."""
    entry = part.entry
    since = format_primary(entry.primary_min, unit)
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
    value_schema = entry.kind or "raw"
    return [
        part.shard,
        part.path.name,
        f"{value_schema}, out of order" if entry.is_out_of_order else value_schema,
        entry.level,
        entry.rows,
        entry.size,
        f"{entry.size / entry.rows:.1f}",
        entry.first,
        entry.last + 1,
        format_primary(entry.primary_min, unit),
        format_primary(entry.primary_max, unit),
        format_primary(entry.sealed_at_ms, "ms"),
    ]
