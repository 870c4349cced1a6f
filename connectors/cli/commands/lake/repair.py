"""`shardlog lake repair`: what the table, its store or this machine has lost, made good."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.lake.check import code_of, print_problems, print_unpublished
from connectors.cli.commands.lake.target import stream_target
from connectors.cli.exit_codes import exit_code_for
from connectors.cli.output.formatting import counted
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.progress_bar import progress_bar
from storage_core.lake import LakeRepair, RepairedFile, repair_lake

_COLUMNS: Final = ("shard", "start", "end", "repaired", "file")
_DONE: Final = {
    "from lake": "brought from the lake",
    "left to lake": "deleted here, the lake has it",
    "uploaded": "uploaded",
}


def repair(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    read: bool,
    others: list[Path] | None,
    lake_options: Path | None,
    as_json: bool,
) -> None:
    """Make good what was lost or damaged."""
    target = stream_target(root, stream, lake_options)
    with progress_bar(None, "row") as progress:
        done = repair_lake(root, stream, target, roots=others or (), read=read, on_rows=progress)
    if as_json:
        print_json(_fields(done))
    else:
        _print(stream, done)
    if done.errors:
        for error in () if as_json else done.errors[1:]:
            print_line(f"  not published: {error}")
        raise done.errors[0]
    if not done.is_clean:
        raise typer.Exit(code_of(done.left))


def _print(stream: str, done: LakeRepair) -> None:
    if done.repaired:
        print_table(_COLUMNS, [_row(file) for file in done.repaired])
    print_problems(done.left)
    repaired = counted(len(done.repaired), "file")
    left = counted(len(done.left.problems), "problem") if done.left.problems else "no problems"
    version = done.left.version
    where = f"version {version} of {done.left.uri}"
    if version is None:
        where = f"there is no table at {done.left.uri} yet"
    print_line(f"{stream}: {where}: repaired: {repaired}; left: {left}")
    if done.runs_written:
        print_line(f"  written again: {counted(done.runs_written, 'heads run')}")
    print_unpublished(done.left)


def _row(file: RepairedFile) -> list[str | int | None]:
    how = f"copied from {file.source}" if file.source else _DONE[file.kind]
    return [file.shard, file.start, file.end, how, file.file]


def _fields(done: LakeRepair) -> dict[str, object]:
    return {
        "repaired": [asdict(file) for file in done.repaired],
        "runs_written": done.runs_written,
        "left": asdict(done.left),
        "errors": [
            {"message": str(error), "exit_code": exit_code_for(error)} for error in done.errors
        ],
    }
