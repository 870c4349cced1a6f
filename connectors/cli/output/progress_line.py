"""One line of progress on a terminal, which is drawn over and cleared at the end.

Without a stream nothing is drawn, nor of work that is done within a moment. Clear the line before
anything else is written to the terminal.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from connectors.cli.output.formatting import counted
from storage_core import Clock, SystemClock

_ROWS_FIRST_S: Final = 0.5
_QUERY_FIRST_S: Final = 1.0
_EACH_S: Final = 0.1
_BAR_CELLS: Final = 24
_CLEAR: Final = "\r\x1b[K"


class ProgressLine:
    """A bar of a share that is done, and a text."""

    def __init__(self, stream: TextIO | None, clock: Clock, first_s: float) -> None:
        """Begin without a line.

        Args:
            stream: The terminal; None to draw nothing.
            clock: Tells the time.
            first_s: After how many seconds the line is drawn first, also after `clear`.
        """
        self._stream = stream
        self._clock = clock
        self._first_s = first_s
        self._begun_s = clock.monotonic_s()
        self._next_s = self._begun_s + first_s
        self._is_drawn = False

    @property
    def spent_s(self) -> float:
        """How many seconds the work has taken."""
        return self._clock.monotonic_s() - self._begun_s

    @property
    def is_due(self) -> bool:
        """Whether the line is to be drawn."""
        return self._stream is not None and self._clock.monotonic_s() >= self._next_s

    def draw(self, share: float | None, text: str) -> None:
        """Draw the line; without a share only the text, below 0 an empty bar."""
        if self._stream is None:
            return
        self._next_s = self._clock.monotonic_s() + _EACH_S
        self._is_drawn = True
        self._stream.write(_CLEAR + ("" if share is None else _bar(min(share, 1.0))) + text)
        self._stream.flush()

    def clear(self) -> None:
        """Clear the line."""
        self._next_s = self._clock.monotonic_s() + self._first_s
        if self._is_drawn and self._stream is not None:
            self._is_drawn = False
            self._stream.write(_CLEAR)
            self._stream.flush()


class RowsLine:
    """Counts rows that are written, and draws how many."""

    def __init__(self, stream: TextIO | None, clock: Clock, total: int = 0) -> None:
        """Begin at none; a total of 0 is not known."""
        self._line = ProgressLine(stream, clock, _ROWS_FIRST_S)
        self._total = total
        self.rows = 0

    def add(self, rows: int) -> None:
        """Count rows."""
        self.rows += rows
        if self._line.is_due:
            speed = self.rows / max(self._line.spent_s, 1e-6)
            share = self.rows / self._total if self._total else None
            self._line.draw(share, f"{counted(self.rows, 'row')}, {speed:,.0f}/s")

    def end(self) -> None:
        """Clear the line."""
        self._line.clear()


class QueryLine:
    """Draws how far a query is."""

    def __init__(self, stream: TextIO | None, clock: Clock) -> None:
        """Begin without a line."""
        self._line = ProgressLine(stream, clock, _QUERY_FIRST_S)

    def tell(self, percent: float) -> None:
        """Draw how far the query is; below 0 is unknown."""
        if self._line.is_due:
            self._line.draw(percent / 100, f"{self._line.spent_s:,.0f} s")

    def hide(self) -> None:
        """Clear the line for a second at least."""
        self._line.clear()


@contextmanager
def query_line() -> Iterator[QueryLine]:
    """Yield a progress line for a query, which is cleared at the end."""
    line = QueryLine(sys.stderr if sys.stderr.isatty() else None, SystemClock())
    try:
        yield line
    finally:
        line.hide()


def _bar(share: float) -> str:
    full = int(max(share, 0.0) * _BAR_CELLS)
    percent = "    " if share < 0 else f"{share:4.0%}"
    return f"[{'#' * full}{'.' * (_BAR_CELLS - full)}] {percent}  "
