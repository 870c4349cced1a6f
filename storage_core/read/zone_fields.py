"""Zones kept for a while without their sets of ids: 96 bytes each instead of some ten thousand.

Once a zone was chosen, its fields are all that reading its block needs.
"""

from collections.abc import Iterator

import numpy as np

from storage_core.format.zone import (
    Zone,
    decode_zone_fields,
    encode_zone_fields,
    zone_without_sections,
)


class ZoneFields:
    """The fields of zones by their addresses, to be taken by primaries."""

    def __init__(self, zones: Iterator[Zone]) -> None:
        """Keep the fields of these zones."""
        self._bytes = b"".join(map(encode_zone_fields, zones))
        self._fields = decode_zone_fields(self._bytes)

    def cuts(self, last: int, zones_per_slice: int) -> list[int]:
        """Return ascending primaries, the last one `last`, with about so many zones between two."""
        tops = np.unique(self._fields["primary_max"])
        tops = tops[tops < last]
        return [*tops[zones_per_slice - 1 :: zones_per_slice].tolist(), last]

    def zones(self, first: int, last: int) -> Iterator[Zone]:
        """Yield the zones that can hold a normal row between two primaries."""
        fields = self._fields
        chosen = (fields["primary_min"] <= last) & (fields["primary_max"] >= first)
        for at in np.flatnonzero(
            chosen & (fields["primary_min"] <= fields["primary_max"])
        ).tolist():
            yield zone_without_sections(self._bytes, at)
