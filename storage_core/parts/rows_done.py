"""How far upkeep of parts is, for whoever waits: in rows, within a step of a million of them too.

A step goes over its rows several times: it reads them, writes them, and proves what it wrote. Each
time counts for its share, so that what is told grows with all of them and is never taken back.
"""

from collections.abc import Callable
from typing import Final

# Told of rows that were gone over.
Handled = Callable[[int], None]
# How often a step that makes files goes over its rows.
MAKING: Final = 3
# A step that compares blocks with their parts does so once.
PROVING: Final = 1


def not_told(_rows: int) -> None:
    """Take no notice."""


class RowsDone:
    """Counts the rows of steps that are done, and about how many are of the one under way."""

    def __init__(self, told: Handled | None, times: int) -> None:
        """Begin at none.

        Args:
            told: Called with how many rows are done so far.
            times: How often a step goes over its rows.
        """
        self._told = told or not_told
        self._times = times
        self._done = 0
        self._handled = 0

    def handled(self, rows: int) -> None:
        """Note rows that the step under way has gone over once more."""
        self._handled += rows
        self._told(self._done + self._handled // self._times)

    def end_step(self, rows: int) -> None:
        """Note how many rows the step had that is over."""
        self._done += rows
        self._handled = 0
        self._told(self._done)
