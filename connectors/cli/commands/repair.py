"""`shardlog verify` and `shardlog accept-loss`: check what is stored, accept what is lost.

Both open the stream for writing, which recovers what a crash left, and are refused while a writer
holds a shard. Where nothing may be written, verify reads the stream as any reader does, and says
what that leaves open.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.each_stream import of_each_stream
from connectors.cli.exit_codes import EXIT_DAMAGE
from connectors.cli.output.formatting import counted, format_ranges
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.progress_bar import progress_bar
from storage_core import InvalidRequestError, Problem, Stream, StreamReader

_COLUMNS: Final = ("stream", "shard", "start", "end", "problem", "file")


def verify(*, root: Path, stream: str | None, lake: bool, as_json: bool) -> None:
    """Read all that is stored, and report damage."""
    problems, error = of_each_stream(
        root,
        stream,
        lambda name: [
            (name, problem) for problem in _verified(root, name, reads_lake=lake, as_json=as_json)
        ],
    )
    if as_json:
        print_json([_fields(name, problem) for name, problem in problems])
    elif problems:
        print_table(_COLUMNS, [_row(name, problem) for name, problem in problems])
    if error is not None:
        raise error
    if problems:
        raise typer.Exit(EXIT_DAMAGE)


def accept_loss(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    shard: int,
    start: int,
    end: int,
    execute: bool,
) -> None:
    """Accept the loss of a range of addresses, so that reads skip it."""
    where = f"[{start}, {end}) of shard {shard} of stream {stream!r}"
    with Stream.open(root, stream, shards=[shard]) as opened:
        lost = opened.lost_ranges()[shard]
        inside = [one for one in lost if start <= one[0] and one[1] <= end]
        if not inside or any(one not in inside and one[0] < end and start < one[1] for one in lost):
            ranges = format_ranges(lost) or "none"
            message = f"{where} must contain whole lost ranges; these are lost: {ranges}"
            raise InvalidRequestError(message)
        if not execute:
            print_line(
                f"would accept the loss of {where}; nothing was changed, add --execute to do it"
            )
            return
        opened.accept_loss(shard, start, end)
        has_parts = bool(opened.parts())
    print_line(f"accepted the loss of {where}: reads skip it")
    if has_parts:
        print_line(f"`shardlog seal {root} {stream} --rebuild` removes damaged parts that had it")


def _verified(root: Path, name: str, *, reads_lake: bool, as_json: bool) -> Iterable[Problem]:
    to_verify = Stream.open if _may_write(root / name) else StreamReader.open
    with to_verify(root, name) as opened, progress_bar(opened.stats().records, "row") as show:
        report = opened.verify(_Progress(show).update, reads_lake=reads_lake)
    if not as_json:
        count = len(report.problems) + report.left_out
        verdict = "no problems" if report.is_clean else counted(count, "problem")
        rows = counted(report.rows, "row")
        print_line(f"{name}: {rows} checked, {report.late_rows:,} of them late: {verdict}")
        blocks, parts = counted(report.blocks, "block"), counted(report.parts, "part")
        print_line(f"  read: {blocks} of the log, {parts}")
        if report.parts_in_lake:
            away = counted(report.parts_in_lake, "part")
            print_line(f"  not read: {away} that only the lake has; --lake reads them")
        for line in report.unchecked:
            print_line(f"  not checked: {line}")
    return report.problems


def _may_write(stream: Path) -> bool:
    """Tell whether a stream and its shards may be written, or it is not there."""
    places = [stream, *stream.glob("*/")]
    return not stream.exists() or all(os.access(place, os.W_OK) for place in places)


class _Progress:
    """How many rows of all shards were read; what further passes read again does not count."""

    def __init__(self, show: Callable[[int], None]) -> None:
        self._show = show
        self._first: dict[int, int] = {}
        self._done: dict[int, int] = {}

    def update(self, shard: int, reached: int, _end: int) -> None:
        done = reached - self._first.setdefault(shard, reached)
        self._done[shard] = max(done, self._done.get(shard, 0))
        self._show(sum(self._done.values()))


def _row(name: str, problem: Problem) -> list[str | int | None]:
    return [name, problem.shard, problem.start, problem.end, problem.message, problem.file]


def _fields(name: str, problem: Problem) -> dict[str, object]:
    return {
        "stream": name,
        "shard": problem.shard,
        "start": problem.start,
        "end": problem.end,
        "kind": problem.kind,
        "key": None if problem.key is None else problem.key.hex(),
        "message": problem.message,
        "file": problem.file,
    }
