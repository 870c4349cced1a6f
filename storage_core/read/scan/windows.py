"""Stretches: which windows, and so which blocks, a scan by primary takes at a time.

Rows that come about in the order of their primaries lie window after window, so a scan that
may stop early begins with the blocks of the first windows and asks for no others. Windows whose
blocks lie among each other's are taken together, lest each ask for the same blocks again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storage_core.format.window import Window

# So many addresses cost little to look through, whatever windows they belong to.
ADDRESSES_MIN: Final = 2**16


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring windows up to `last`, whose normal rows have addresses in [start, end)."""

    last: int
    start: int
    end: int

    def takes(self, start: int, end: int) -> bool:
        """Tell whether addresses of the next window are better looked through with these."""
        together = max(end, self.end) - min(start, self.start)
        shared = min(end, self.end) - max(start, self.start)
        return together <= ADDRESSES_MIN or 2 * shared > min(end - start, self.end - self.start)


def stretches(windows: Iterable[tuple[int, Window]]) -> list[Stretch]:
    """Return ascending windows as stretches; those without normal rows are in none."""
    found: list[Stretch] = []
    for number, window in windows:
        start, end = window.address_min, window.address_last + 1
        if start >= end:
            continue
        if found and found[-1].takes(start, end):
            before = found[-1]
            found[-1] = Stretch(number, min(start, before.start), max(end, before.end))
        else:
            found.append(Stretch(number, start, end))
    return found
