"""Which addresses of parts are read at once, and what that costs.

A part is sorted by id, so that few addresses may lie all over it: reading them costs most of its
groups, and reading all others then costs little more. Where ids are few each group has addresses
of its own, and whoever asks for few reads few groups. What groups tell of their addresses decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import AddressRange
from storage_core.parts.footer import Footer, footer_of
from storage_core.read.cold.part_index import PartIndex
from storage_core.read.cold.parts import part_path

# What the rows of a slice are meant to take in memory.
SLICE_BYTES: Final = 192 * 2**20
# So many addresses are read at once whatever groups they lie in.
ADDRESSES_FEW: Final = 2**18
# Of what these cost more addresses may cost so many times as much.
_DEARER: Final = 1.5
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ColdSlice:
    """Some addresses, so many as memory is meant to take, and the parts with rows of them.

    Attributes:
        range: The addresses.
        parts: By first address.
        held_bytes: What its rows take in memory, about, so far as that was looked at.
    """

    range: AddressRange
    parts: tuple[PartEntry, ...]
    held_bytes: int = 0


class ColdSlices:
    """Cuts a catalogue into slices. What it returns depends on nothing but the files."""

    def __init__(self, index: PartIndex, directory: Path) -> None:
        """Cut the parts of a catalogue, whose files lie in a directory."""
        self._index = index
        self._directory = directory

    def at(self, address: int, end: int) -> ColdSlice | None:
        """Return the slice with the first address from one to before another that a part may have.

        It begins where a part does, or ends. It goes on within the largest part that is there, as
        long as others that begin have no more rows than those of its begin.

        Raises:
            FileNotFoundError: The file of a part is gone.
            CorruptionError: It is damaged.
        """
        near = self._index.overlapping(address, end)
        if not near:
            return None
        found = self._index.around(max(address, min(one.first for one in near)))
        parts = self._index.overlapping(found.start, found.end)
        spare = sum(one.rows for one in parts)
        most = max(found.end, max(parts, key=lambda one: one.rows).last + 1)
        while (more := self._index.around(found.end).end) <= most:
            new = [
                one for one in self._index.overlapping(found.end, more) if one.first >= found.end
            ]
            spare -= sum(one.rows for one in new)
            if spare < 0:
                break
            found, parts = AddressRange(found.start, more), [*parts, *new]
        return self._cut(found, parts, max(address, found.start))

    def of(self, start: int, end: int) -> ColdSlice:
        """Return the slice of these very addresses, with no parts but those that can have some."""
        return ColdSlice(AddressRange(start, end), tuple(self._index.overlapping(start, end)))

    def _cut(self, found: AddressRange, parts: Sequence[PartEntry], address: int) -> ColdSlice:
        """Return what of a range is about an address: all, or a half, a quarter and so on."""
        some = [
            _PartGroups(part, footer_of(part_path(self._directory, part), part.proof))
            for part in parts
        ]
        size = found.end - found.start
        few = _about(address, found, -(-size // ADDRESSES_FEW))
        affordable = _DEARER * sum(one.read_bytes(few) for one in some)
        count = 1
        while True:
            cut = _about(address, found, count)
            held = sum(one.held_bytes(cut) for one in some)
            is_few = cut.end - cut.start <= ADDRESSES_FEW
            is_cheap = sum(one.read_bytes(cut) for one in some) <= affordable
            if ((is_few or is_cheap) and held <= SLICE_BYTES) or count >= size:
                return ColdSlice(cut, self.of(cut.start, cut.end).parts, int(held))
            count *= 2


def _about(address: int, whole: AddressRange, count: int) -> AddressRange:
    """Return that of so many equal pieces of a range which has an address."""
    step = -(-(whole.end - whole.start) // count)
    begin = address - (address - whole.start) % step
    return AddressRange(begin, min(begin + step, whole.end))


class _PartGroups:
    """The groups of a part by their addresses, and what each takes in memory."""

    def __init__(self, part: PartEntry, foot: Footer) -> None:
        least, most = foot.table.bounds["address"]
        self._least: Final = np.clip(least, part.first, part.last)
        self._most: Final = np.clip(most, part.first, part.last)
        told: list[Any] = [
            foot.metadata.row_group(at).total_byte_size for at in range(foot.row_groups)
        ]
        shares: Floats = np.array(told, np.float64)
        self._bytes: Final[Floats] = shares * (
            foot.table.decoded_bytes / max(1.0, float(shares.sum()))
        )

    def read_bytes(self, some: AddressRange) -> float:
        """Return what the groups take that can have one of some addresses."""
        is_near = (self._least < some.end) & (self._most >= some.start)
        return float(self._bytes[is_near].sum())

    def held_bytes(self, some: AddressRange) -> float:
        """Return what the rows take, about, that have one of some addresses."""
        inside = np.minimum(self._most + 1, some.end) - np.maximum(self._least, some.start)
        share = np.maximum(inside, 0) / (self._most + 1 - self._least)
        return float((self._bytes * share).sum())
