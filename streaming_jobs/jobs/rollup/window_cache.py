"""The roll-ups of the newest windows in memory, so that what comes for them need not be read again.

A window is kept whole, with all its ids, or not at all: one that has no row here has none. What is
not kept is read where it lies; how much is kept changes what a batch costs, and never what it says.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

WINDOWS_MAX: Final = 3
ROLLUPS_MAX: Final = 2_000_000


class WindowCache:
    """At most so many windows, the newest, with at most so many roll-ups together."""

    def __init__(self, windows_max: int = WINDOWS_MAX, rollups_max: int = ROLLUPS_MAX) -> None:
        """Keep nothing yet."""
        self._windows_max = windows_max
        self._rollups_max = rollups_max
        self._tables: dict[int, pa.Table] = {}

    def get(self, start: int) -> pa.Table | None:
        """Return the roll-ups of a window, None if it is not kept."""
        return self._tables.get(start)

    def wanted(self, starts: Iterable[int]) -> set[int]:
        """Return which of some windows will be kept, if they are put."""
        newest = sorted({*self._tables, *starts})[-self._windows_max :]
        return {start for start in starts if start in newest}

    def put(self, start: int, rollups: pa.Table) -> None:
        """Keep a window; older ones go where there is no room."""
        self._tables[start] = rollups
        while len(self._tables) > self._windows_max or self._rows > self._rollups_max:
            del self._tables[min(self._tables)]

    def clear(self) -> None:
        """Forget all."""
        self._tables.clear()

    @property
    def _rows(self) -> int:
        return sum(table.num_rows for table in self._tables.values())
