"""Zones kept for a while without their sets of ids: 96 bytes each instead of some ten thousand.

Once a zone was chosen, its fields are all that reading its block needs.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.zone import (
    SMALL_BYTES,
    SMALL_ROWS,
    Zone,
    decode_zone_fields,
    encode_zone_fields,
    zone_without_sections,
)

# So many of the smallest blocks count as one.
_SHARE_MIN: Final = 1 / 64


class ZoneFields:
    """The fields of zones by their addresses, to be taken by primaries."""

    def __init__(self, zones: Iterator[Zone]) -> None:
        """Keep the fields of these zones."""
        self._bytes = b"".join(map(encode_zone_fields, zones))
        self._fields = decode_zone_fields(self._bytes)

    def cuts(self, last: int, zones_per_slice: int) -> list[int]:
        """Return ascending primaries, the last one `last`, with about so many zones between two.

        Those of small blocks count as what they hold, so that no slice has a few rows only.
        """
        tops, codes = np.unique(self._fields["primary_max"], return_inverse=True)
        shares = np.minimum(1.0, np.bincount(codes, self._shares(), len(tops)))
        inside = tops < last
        slices = np.floor(np.cumsum(shares[inside]) / zones_per_slice)
        return [*tops[inside][np.diff(slices, prepend=0.0) > 0].tolist(), last]

    def _shares(self) -> npt.NDArray[np.float64]:
        """Return how much of a block that is not small each zone stands for."""
        fields = self._fields
        shares = np.maximum(fields["block_bytes"] / SMALL_BYTES, fields["count"] / SMALL_ROWS)
        clipped: npt.NDArray[np.float64] = np.clip(shares, _SHARE_MIN, 1.0)
        return clipped

    def zones(self, first: int, last: int) -> Iterator[Zone]:
        """Yield the zones that can hold a normal row between two primaries."""
        fields = self._fields
        chosen = (fields["primary_min"] <= last) & (fields["primary_max"] >= first)
        chosen &= fields["primary_min"] <= fields["primary_max"]
        for position in np.flatnonzero(chosen).tolist():
            yield zone_without_sections(self._bytes, position)
