"""`shardlog verify` and `shardlog accept-loss`: look at what is stored, go on without what is gone.

Both open the stream for writing, which recovers what a crash left, and are refused while a writer
holds a shard.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.each_stream import of_each_stream
from connectors.cli.exit_codes import EXIT_DAMAGE
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.progress_bar import progress_bar
from connectors.cli.output.shown import counted, shown_ranges
from storage_core import InvalidRequestError, Problem, Stream

_COLUMNS: Final = ("stream", "shard", "start", "end", "what is wrong", "file")


def verify(*, root: Path, stream: str | None, as_json: bool) -> None:
    """Read all that is stored, and tell what is wrong."""
    found, error = of_each_stream(
        root,
        stream,
        lambda name: [(name, problem) for problem in _verified(root, name, as_json=as_json)],
    )
    if as_json:
        print_json([_fields(name, problem) for name, problem in found])
    elif found:
        print_table(_COLUMNS, [_row(name, problem) for name, problem in found])
    if error is not None:
        raise error
    if found:
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
    """Give up a lost range by name, so that reads pass over it; `status` names those there are."""
    where = f"[{start}, {end}) of shard {shard} of stream {stream!r}"
    with Stream.open(root, stream, shards=[shard]) as opened:
        lost = opened.lost_ranges()[shard]
        inside = [one for one in lost if start <= one[0] and one[1] <= end]
        if not inside or any(one not in inside and one[0] < end and start < one[1] for one in lost):
            known = shown_ranges(lost) or "none"
            message = f"{where} must hold whole lost ranges; lost are: {known}"
            raise InvalidRequestError(message)
        if not execute:
            print_line(f"would give up {where}; nothing was given up, add --execute to do it")
            return
        opened.accept_loss(shard, start, end)
        has_parts = bool(opened.parts())
    print_line(f"gave up {where}: reads pass over it")
    if has_parts:
        print_line(f"`shardlog seal {root} {stream} --mend` takes damaged parts away that had it")


def _verified(root: Path, name: str, *, as_json: bool) -> Iterable[Problem]:
    with Stream.open(root, name) as opened, progress_bar(opened.stats().records, "row") as told:
        report = opened.verify(_Reached(told).tell)
    if not as_json:
        count = len(report.problems) + report.left_out
        said = "nothing is wrong" if report.is_clean else f"{counted(count, 'problem')}"
        rows = counted(report.rows, "row")
        print_line(f"{name}: {rows} looked at, {report.late_rows:,} of them late: {said}")
        blocks, parts = counted(report.blocks, "block"), counted(report.parts, "part")
        print_line(f"  read for it: {blocks} of the log, {parts}")
        for line in report.unchecked:
            print_line(f"  not looked at: {line}")
    return report.problems


class _Reached:
    """How many rows of all shards were reached; what further passes reach again counts no more."""

    def __init__(self, told: Callable[[int], None]) -> None:
        self._told = told
        self._first: dict[int, int] = {}
        self._done: dict[int, int] = {}

    def tell(self, shard: int, reached: int, _end: int) -> None:
        done = reached - self._first.setdefault(shard, reached)
        self._done[shard] = max(done, self._done.get(shard, 0))
        self._told(sum(self._done.values()))


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
