"""Zones kept for a while without their sets of ids: 96 bytes each instead of some ten thousand.

Once a zone was chosen, its fields are all that reading its block needs.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage_core.format.zone import (
    IDS_LEFT_OUT,
    SMALL_BYTES,
    SMALL_ROWS,
    Zone,
    decode_zone_fields,
    encode_zone_fields,
    zone_without_sections,
)

# So many of the smallest blocks count as one.
_SHARE_MIN: Final = 1 / 64
# What a wide zone has counts as one block for so many rows, or bytes.
UNIT_ROWS: Final = 2**14
_UNIT_BYTES: Final = 2 * 2**20
_BOUNDS: Final = ("primary_min", "primary_max")


class ZoneFields:
    """The fields of zones by their addresses, to be taken by primaries."""

    def __init__(self, zones: Iterator[Zone]) -> None:
        """Keep the fields of these zones."""
        fields: list[bytes] = []
        self._wide: dict[int, int] = {}
        for position, zone in enumerate(zones):
            fields.append(encode_zone_fields(zone))
            if zone.is_wide:
                units = max(zone.count / UNIT_ROWS, zone.block_bytes / _UNIT_BYTES)
                self._wide[position] = int(units) + 1
        self._bytes = b"".join(fields)
        self._fields = decode_zone_fields(self._bytes)

    def cuts(self, first: int, last: int, zones_per_slice: int) -> list[int]:
        """Return primaries from `first` to `last`, the last one, with so many zones between two.

        Those of small blocks count as what they hold, so that no slice has a few rows only. Of a
        wide zone the rows are taken to lie evenly between its bounds.
        """
        ends = [self._fields["primary_max"]]
        shares_of_ends: list[Any] = [self._shares()]
        for position, units in self._wide.items():
            least, most = (int(self._fields[name][position]) for name in _BOUNDS)
            begin, end = max(least, first), min(most, last)
            cuts = max(0, units * (end - begin) // max(1, most - least))
            inner = [begin + (end - begin) * unit // cuts for unit in range(1, cuts)]
            ends.append(np.array(inner, np.int64))
            shares_of_ends.append(np.ones(len(inner)))
        tops, codes = np.unique(np.concatenate(ends), return_inverse=True)
        shares = np.minimum(1.0, np.bincount(codes, np.concatenate(shares_of_ends), len(tops)))
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
            zone = zone_without_sections(self._bytes, position)
            if position not in self._wide:
                zone.sections = IDS_LEFT_OUT
            yield zone
