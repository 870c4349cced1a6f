"""How far a step of tiering is, in rows, for whoever waits: within a step of a million rows too.

A step goes over its rows several times: it reads them, writes them, and proves what it wrote. Each
time counts for its share, so that the count only grows.
"""

from collections.abc import Callable
from typing import Final

# Called with a number of rows.
OnRows = Callable[[int], None]
# How often a step that builds files goes over its rows.
BUILD_PASSES: Final = 3
# A step that compares blocks with their parts does so once.
PROOF_PASSES: Final = 1


def ignore_rows(_rows: int) -> None:
    """Do nothing."""


class RowProgress:
    """Counts the rows of steps that are done, and about how many of the one under way."""

    def __init__(self, report: OnRows | None, passes: int) -> None:
        """Begin at none.

        Args:
            report: Called with how many rows are done so far.
            passes: How often a step goes over its rows.
        """
        self._report = report or ignore_rows
        self._passes = passes
        self._done = 0
        self._passed = 0

    def on_rows(self, rows: int) -> None:
        """Count rows that the step under way has gone over once more."""
        self._passed += rows
        self._report(self._done + self._passed // self._passes)

    def end_step(self, rows: int) -> None:
        """Count the rows of the step that is over."""
        self._done += rows
        self._passed = 0
        self._report(self._done)
