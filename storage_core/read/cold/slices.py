"""Which addresses of parts are read at once, and what that costs.

A part is sorted by id, so that few addresses may lie all over it: reading them costs most of its
row groups, and reading all others then costs little more. Where ids are few each row group has
addresses of its own, and whoever asks for few reads few. The bounds of row groups decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import AddressRange
from storage_core.parts.footer import Footer, footer_of
from storage_core.parts.part_home import OpenerOf, opener_of
from storage_core.parts.snapshot import PartIndex, listed_part

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
        held_bytes: What its rows take in memory, about; 0 where that was not computed.
    """

    range: AddressRange
    parts: tuple[PartEntry, ...]
    held_bytes: int = 0


class ColdSlices:
    """Cuts the parts of a snapshot into slices. What it returns depends on the files alone."""

    def __init__(
        self, index: PartIndex, shard: int, directory: Path, opener_of: OpenerOf = opener_of
    ) -> None:
        """Cut these parts of a shard, whose files lie in a directory, or elsewhere."""
        self._index = index
        self._shard = shard
        self._directory = directory
        self._opener_of = opener_of

    def about(self, address: int, end: int) -> ColdSlice | None:
        """Return the slice with the first address from one to before another that a part may have.

        It begins where a part does, or ends. It goes on within the largest part that is there, as
        long as others that begin have no more rows than those of its begin.

        Raises:
            CorruptionError: The file of a part is damaged or gone.
        """
        near = self._index.overlapping(address, end)
        if not near:
            return None
        whole = self._index.around(max(address, min(part.first for part in near)))
        start, end = whole.start, whole.end
        parts = self._index.overlapping(start, end)
        spare = sum(part.rows for part in parts)
        most = max(end, max(parts, key=lambda part: part.rows).last + 1)
        while (more := self._index.around(end).end) <= most:
            new = [part for part in self._index.overlapping(end, more) if part.first >= end]
            spare -= sum(part.rows for part in new)
            if spare < 0:
                break
            end, parts = more, [*parts, *new]
        return self._cut(AddressRange(start, end), parts, max(address, start))

    def end_before(self, start: int, end: int) -> int:
        """Return the end of the last part below an address that has one from `start` on."""
        below = [part.last + 1 for part in self._index.overlapping(start, end)]
        return min(end, max(below, default=start))

    def of(self, start: int, end: int) -> ColdSlice:
        """Return the slice of these very addresses, with no parts but those that can have some."""
        return ColdSlice(AddressRange(start, end), tuple(self._index.overlapping(start, end)))

    def _cut(self, whole: AddressRange, parts: Sequence[PartEntry], address: int) -> ColdSlice:
        """Return what of a range is about an address: all, or a half, a quarter and so on."""
        groups = [_RowGroups(part, self._footer(part)) for part in parts]
        size = whole.end - whole.start
        few = _about(address, whole, -(-size // ADDRESSES_FEW))
        affordable = _DEARER * sum(of_part.read_bytes(few) for of_part in groups)
        count = 1
        while True:
            cut = _about(address, whole, count)
            held = sum(of_part.held_bytes(cut) for of_part in groups)
            is_few = cut.end - cut.start <= ADDRESSES_FEW
            is_cheap = sum(of_part.read_bytes(cut) for of_part in groups) <= affordable
            if ((is_few or is_cheap) and held <= SLICE_BYTES) or count >= size:
                return ColdSlice(cut, self.of(cut.start, cut.end).parts, int(held))
            count *= 2

    def _footer(self, part: PartEntry) -> Footer:
        listed = listed_part(self._shard, self._directory, part)
        try:
            return footer_of(listed.path, part.proof, self._opener_of(listed))
        except FileNotFoundError as error:
            message = "the part is gone"
            raise CorruptionError(message, path=listed.path) from error


def _about(address: int, whole: AddressRange, count: int) -> AddressRange:
    """Return that of so many equal pieces of a range which has an address."""
    step = -(-(whole.end - whole.start) // count)
    begin = address - (address - whole.start) % step
    return AddressRange(begin, min(begin + step, whole.end))


class _RowGroups:
    """The row groups of a part by their addresses, and what each takes in memory."""

    def __init__(self, part: PartEntry, footer: Footer) -> None:
        least, most = footer.table.bounds["address"]
        self._least: Final = np.clip(least, part.first, part.last)
        self._most: Final = np.clip(most, part.first, part.last)
        sizes: list[Any] = [
            footer.metadata.row_group(group).total_byte_size for group in range(footer.row_groups)
        ]
        shares: Floats = np.array(sizes, np.float64)
        self._bytes: Final[Floats] = shares * (
            footer.table.decoded_bytes / max(1.0, float(shares.sum()))
        )

    def read_bytes(self, some: AddressRange) -> float:
        """Return what the row groups take that can have one of some addresses."""
        is_near = (self._least < some.end) & (self._most >= some.start)
        return float(self._bytes[is_near].sum())

    def held_bytes(self, some: AddressRange) -> float:
        """Return what the rows take, about, that have one of some addresses."""
        inside = np.minimum(self._most + 1, some.end) - np.maximum(self._least, some.start)
        share = np.maximum(inside, 0) / (self._most + 1 - self._least)
        return float((self._bytes * share).sum())
