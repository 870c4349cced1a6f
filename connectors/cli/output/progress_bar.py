"""A bar on a terminal for what takes long; elsewhere nothing is drawn."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from connectors.cli.output.formatting import counted
from storage_core import Clock, SystemClock

_FIRST_S: Final = 1.0
_BAR_CELLS: Final = 24
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def progress_bar(total: int | None, noun: str = "record") -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many are done and draws a bar on a terminal.

    Args:
        total: How many there are; None if that is not known.
        noun: What one of them is called.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (BarColumn(_BAR_CELLS), TextColumn("{task.fields[far]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total, far=how_far(0, total, noun))
        yield lambda done: progress.update(task, completed=done, far=how_far(done, total, noun))


def how_far(done: int, total: int | None, noun: str) -> str:
    """Return how far work is; the total may have grown since it was counted."""
    if total is None:
        return counted(done, noun)
    return f"{done:,} of {counted(max(done, total), noun)}"


class QueryLine:
    """A line that says how far a query is, from its second second on.

    Hide it before anything else is written to the terminal.
    """

    def __init__(self, stream: TextIO | None, clock: Clock) -> None:
        """Begin; without a stream nothing is drawn."""
        self._stream = stream
        self._clock = clock
        self._begun_s = self._waits_since_s = clock.monotonic_s()
        self._is_shown = False

    def tell(self, percent: float) -> None:
        """Draw how far the query is; below 0 is unknown."""
        now_s = self._clock.monotonic_s()
        if self._stream is None or now_s - self._waits_since_s < _FIRST_S:
            return
        share = min(percent / 100, 1.0)
        full = int(max(share, 0.0) * _BAR_CELLS)
        far = "    " if share < 0 else f"{share:4.0%}"
        bar = f"[{'#' * full}{'.' * (_BAR_CELLS - full)}] {far}"
        self._stream.write(f"{_CLEAR}{bar}  {now_s - self._begun_s:,.0f} s")
        self._stream.flush()
        self._is_shown = True

    def hide(self) -> None:
        """Clear the line for a second at least."""
        self._waits_since_s = self._clock.monotonic_s()
        if self._is_shown and self._stream is not None:
            self._stream.write(_CLEAR)
            self._stream.flush()
        self._is_shown = False


@contextmanager
def query_line() -> Iterator[QueryLine]:
    """Yield a progress line for a query, which is cleared at the end."""
    line = QueryLine(sys.stderr if sys.stderr.isatty() else None, SystemClock())
    try:
        yield line
    finally:
        line.hide()
