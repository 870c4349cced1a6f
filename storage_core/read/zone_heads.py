"""Zones kept for a while without their sets of ids: 96 bytes each instead of some ten thousand.

Once a zone was chosen, its head is all that reading its block needs.
"""

from collections.abc import Iterator

import numpy as np

from storage_core.format.zone import (
    Zone,
    decode_zone_heads,
    encode_zone_head,
    zone_without_sections,
)


class ZoneHeads:
    """The heads of zones by their addresses, to be taken by primaries."""

    def __init__(self, zones: Iterator[Zone]) -> None:
        """Keep the heads of these zones."""
        self._bytes = b"".join(map(encode_zone_head, zones))
        self._heads = decode_zone_heads(self._bytes)

    def cuts(self, last: int, zones_per_slice: int) -> list[int]:
        """Return ascending primaries, the last one `last`, with about so many zones between two."""
        tops = np.unique(self._heads["primary_max"])
        tops = tops[tops < last]
        return [*tops[zones_per_slice - 1 :: zones_per_slice].tolist(), last]

    def zones(self, first: int, last: int) -> Iterator[Zone]:
        """Yield the zones that can hold a normal row between two primaries."""
        heads = self._heads
        chosen = (heads["primary_min"] <= last) & (heads["primary_max"] >= first)
        for at in np.flatnonzero(chosen & (heads["primary_min"] <= heads["primary_max"])).tolist():
            yield zone_without_sections(self._bytes, at)
