"""Two checkouts in turn: is a row of this one worse than of the other, beyond its noise?

Of the other checkout only the command line and the figures in JSON are relied upon. A turn is a
process that runs one experiment of one checkout, five rounds as always, with this one's
interpreter and libraries; the two take turns, every second pair the other way round. A pair of
turns gives each row a ratio, this checkout's figure to the other's. A row is worse where the median
of its ratios is on the bad side of 1 by more than half the way from the least to the greatest of
them, and by more than two percent.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.measure import Experiment, Row, VoidError
from bench.report import with_unit
from bench.workspace import empty_directory

TITLES: Final = ("row", "other", "this", "ratio", "spread", "verdict")
_ROUNDS: Final = 5
_NOISE_MIN: Final = 0.02
_SAID_CHARS: Final = 500

Turn = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row's figures in both checkouts, one of each a pair."""

    row: Row
    other: tuple[float, ...]
    this: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """This checkout's figure to the other's, pair by pair."""
        return tuple(this / other for other, this in zip(self.other, self.this, strict=True))

    @property
    def verdict(self) -> str:
        """What to make of it, in a word."""
        if self.row.sense is None:
            return "reported"
        more = median(self.ratios) - 1
        if abs(more) <= max((max(self.ratios) - min(self.ratios)) / 2, _NOISE_MIN):
            return "same"
        return "better" if (more > 0) == (self.row.sense == "at least") else "worse"

    def cells(self) -> tuple[str, ...]:
        """Return its line of the table."""
        return (
            self.row.name,
            with_unit(self.row, median(self.other)),
            with_unit(self.row, median(self.this)),
            f"{median(self.ratios):.3f}",
            f"{min(self.ratios):.3f} - {max(self.ratios):.3f} ({len(self.ratios)})",
            self.verdict,
        )


def compare(
    experiment: Experiment,
    checkouts: tuple[Path, Path],
    workspace: Path,
    pairs: int,
    tell: Callable[[str], None],
) -> Iterator[Comparison]:
    """Run an experiment in the other checkout and in this one by turns; yield rows that both have.

    Raises:
        VoidError: One of them gave no figures, and the message ends with what it said last; or they
            have no row in common.
    """
    other: list[Turn] = []
    this: list[Turn] = []
    # By the side, not by the path: a checkout may be held against itself, to see the noise.
    sides = list(zip(checkouts, (other, this), strict=True))
    for number in range(pairs):
        for checkout, turns in sides if number % 2 == 0 else reversed(sides):
            tell(f"{experiment.name}: pair {number + 1} of {pairs}, {checkout}")
            turns.append(_turn(checkout, experiment.name, workspace))
    common = [row for row in experiment.rows if row.name in other[0]]
    if not common:
        message = f"no row of it is in {checkouts[0]}, which has {', '.join(other[0])}"
        raise VoidError(message)
    for row in common:
        yield Comparison(row, _figures(row, other), _figures(row, this))


def _turn(checkout: Path, experiment: str, workspace: Path) -> Turn:
    """Run one experiment in a process of a checkout; return its rows by name."""
    # Where there are none, Python would take those of the checkout that is installed.
    if not (checkout / "bench" / "__init__.py").exists():
        message = f"no benchmarks are in {checkout}"
        raise VoidError(message)
    with empty_directory(workspace) as path:
        figures = path / "figures.json"
        command = [sys.executable, "-m", "bench", f"--rows={experiment}", f"--pairs={_ROUNDS}"]
        process = subprocess.Popen(
            [*command, f"--directory={path}", f"--json={figures}"],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": os.fspath(checkout)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C reaches it through this process, once: a second signal would cut its end short.
            process_group=0,
        )
        try:
            _, said = process.communicate()
        finally:
            # Told to stop, it removes what it wrote; one that has ended does not hear this.
            process.terminate()
            process.wait()
        # A turn beyond a limit fails, and has figures all the same.
        rows = json.loads(figures.read_text())["rows"] if figures.exists() else []
    if not rows:
        message = f"no figures from {checkout}: {said.strip()[-_SAID_CHARS:]}"
        raise VoidError(message)
    return {row["row"]: row for row in rows}


def _figures(row: Row, turns: Iterable[Turn]) -> tuple[float, ...]:
    # A difference may be nothing or less, which makes no ratio; what it is a part of does.
    field = "ours" if row.compared == "difference" else "median"
    return tuple(turn[row.name][field] for turn in turns)
