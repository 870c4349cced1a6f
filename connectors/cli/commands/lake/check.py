"""`shardlog lake check`: the table of a stream compared with its parts."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.lake.target import stream_target
from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_UNAVAILABLE
from connectors.cli.output.formatting import counted, format_bytes
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.progress_bar import progress_bar
from storage_core.lake import LakeCheck, LakeProblem, check_lake

_COLUMNS: Final = ("shard", "start", "end", "problem", "file")
# What a repair does not make good.
_NOT_REPAIRED: Final = ("log", "unread")


def check(*, root: Path, stream: str, read: bool, lake_options: Path | None, as_json: bool) -> None:
    """Compare the table with the part list."""
    target = stream_target(root, stream, lake_options)
    with progress_bar(None, "row") as progress:
        report = check_lake(root, stream, target, read=read, on_rows=progress)
    if as_json:
        print_json(asdict(report))
    else:
        _print(stream, report, read=read)
    if not report.is_clean:
        raise typer.Exit(code_of(report))


def code_of(report: LakeCheck) -> int:
    """Return the exit code where something is wrong: whether to repair or to try again."""
    is_for_now = all(problem.kind == "unread" for problem in report.problems)
    return EXIT_UNAVAILABLE if is_for_now else EXIT_DAMAGE


def _print(stream: str, report: LakeCheck, *, read: bool) -> None:
    print_problems(report)
    if report.version is None:
        print_line(f"{stream}: there is no table at {report.uri} yet")
        print_unpublished(report)
        return
    count = len(report.problems)
    verdict = counted(count, "problem") if count else "no problems"
    files, rows = counted(report.files, "file"), counted(report.rows, "row")
    print_line(f"{stream}: version {report.version} of {report.uri}: {verdict}")
    how = f"read whole, {format_bytes(report.bytes_read)}" if read else "by name, size and count"
    if report.files_unread:
        how += f"; {counted(report.files_unread, 'file')} could not be read"
    print_line(f"  compared: {files} of {rows}, {how}")
    print_unpublished(report)
    if report.pending:
        print_line(f"  the next publish adds or removes: {counted(report.pending, 'file')}")
    kinds = {problem.kind for problem in report.problems}
    # No publish or repair writes to a table that names a file of another program.
    if "foreign" not in kinds and kinds.difference(_NOT_REPAIRED):
        how = " --read" if read else ""
        print_line(f"  `shardlog lake repair{how}` makes good what somebody has still")
    for line in report.unchecked:
        print_line(f"  not compared: {line}")


def print_problems(report: LakeCheck) -> None:
    """Print a table of what is wrong; nothing where nothing is."""
    if report.problems:
        print_table(_COLUMNS, [_row(problem) for problem in report.problems])


def print_unpublished(report: LakeCheck) -> None:
    """Print how many rows are not published; nothing where all are."""
    if report.unpublished:
        rows = counted(report.unpublished, "row")
        print_line(f"  not published yet: {rows}; `shardlog lake publish` publishes what is sealed")


def _row(problem: LakeProblem) -> list[str | int | None]:
    return [problem.shard, problem.start, problem.end, problem.message, problem.file]
