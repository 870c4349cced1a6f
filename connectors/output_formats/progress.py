"""How far long work has come, as one line on a terminal that is drawn over and taken away.

Nothing is shown where nobody looks, nor of work that is done within a moment.
"""

from typing import Final, TextIO

from storage_core import Clock

_FIRST_S: Final = 0.5
_EACH_S: Final = 0.1
_BAR_CELLS: Final = 24
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """Counts rows, and shows them on a terminal."""

    def __init__(self, stream: TextIO | None, clock: Clock, total: int = 0) -> None:
        """Begin at none.

        Args:
            stream: The terminal; None to show nothing.
            clock: Tells the time.
            total: How many rows there will be; 0 if that is not known.
        """
        self._stream = stream
        self._total = total
        self._clock = clock
        self._begun_s = clock.monotonic_s()
        self._next_s = self._begun_s + _FIRST_S
        self._is_shown = False
        self.rows = 0

    def add(self, rows: int) -> None:
        """Count rows."""
        self.rows += rows
        if self._stream is None:
            return
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_s:
            self._next_s = now_s + _EACH_S
            self._is_shown = True
            self._stream.write(_CLEAR + self._line(now_s - self._begun_s))
            self._stream.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._is_shown and self._stream is not None:
            self._is_shown = False
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _line(self, spent_s: float) -> str:
        speed = f"{self.rows:,} rows, {self.rows / spent_s:,.0f}/s" if spent_s else ""
        if not self._total:
            return speed
        share = min(self.rows / self._total, 1.0)
        full = int(share * _BAR_CELLS)
        return f"[{'#' * full}{'.' * (_BAR_CELLS - full)}] {share:4.0%}  {speed}"
