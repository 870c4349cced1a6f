"""The parts of a shard by their addresses: those that overlap a range, without a look at all.

Parts of one kind and flag share no addresses. Those of several do, each in places of its own:
seals cut all of them at once, and joins each by itself, so that one may reach over many of another.
So there is a list for each kind and flag, by address. Were two of one list to overlap, both would
still be found. A value that never changes; any thread may ask.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from storage_core.format.keys import INT64_MAX
from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import AddressRange


class _Alike:
    """The parts of one kind and flag."""

    def __init__(self, parts: Sequence[PartEntry]) -> None:
        self.parts: Final = parts
        self.firsts: Final = [part.first for part in parts]
        # The largest address of each and of those before it.
        self.reached: Final = list(accumulate((part.last for part in parts), max))

    def overlapping(self, start: int, end: int) -> list[PartEntry]:
        begin, behind = bisect_left(self.reached, start), bisect_left(self.firsts, end)
        return [part for part in self.parts[begin:behind] if part.last >= start]

    def around(self, address: int) -> tuple[int, int]:
        """Return the range about an address in which no part begins or ends, as far as it goes."""
        at = bisect_right(self.firsts, address)
        end = self.firsts[at] if at < len(self.firsts) else INT64_MAX
        if not at:
            return 0, end
        part = self.parts[at - 1]
        return (part.last + 1, end) if part.last < address else (part.first, part.last + 1)


class PartIndex:
    """The entries of a catalogue, by first address and number."""

    def __init__(self, entries: Sequence[PartEntry]) -> None:
        """Put them in order."""
        self.entries: Final = tuple(entries)
        alike: dict[tuple[str, bool], list[PartEntry]] = {}
        for part in self.entries:
            alike.setdefault((part.kind, part.is_flagged), []).append(part)
        self._alike = [_Alike(parts) for parts in alike.values()]

    def overlapping(self, start: int, end: int) -> list[PartEntry]:
        """Return the parts with addresses from one to before another, in order."""
        if start >= end:
            return []
        found = [part for some in self._alike for part in some.overlapping(start, end)]
        return sorted(found, key=_place)

    def overlapping_any(self, runs: Sequence[AddressRange]) -> list[PartEntry]:
        """Return the parts with addresses in any of some ranges, in order, each once."""
        each = (self.overlapping(run.start, run.end) for run in runs)
        found = {_place(part): part for some in each for part in some}
        return [found[place] for place in sorted(found)]

    def around(self, address: int) -> AddressRange:
        """Return the longest range with an address in which no part begins or ends."""
        each = [some.around(address) for some in self._alike]
        start = max((start for start, _ in each), default=0)
        return AddressRange(start, min((end for _, end in each), default=INT64_MAX))


def _place(part: PartEntry) -> tuple[int, int]:
    return part.first, part.number
