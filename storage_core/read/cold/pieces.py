"""Rows of parts by address for whoever asks for neighbours: decoded once, shown a few at a time.

A slice of addresses (cold_slices.py) is held as its files have it, the payloads that they leave out
not made again, beside the order of its addresses. Of that some thousand rows at a time are shown as
rows of the log, and held, until others are asked for. So it takes, at most and about,

    SLICE_BYTES (192 MiB)          of decoded rows, however many slices
    the largest column again       while a slice is put together
    twice SHOWN_BYTES (16 MiB)     of rows shown, thrice that while they are made

A single group of a part that takes more, or rows that are unlike most of their part, take what
they take.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.shard_state import AddressRange
from storage_core.read.cold.rows import ColdPart, ColdRows
from storage_core.read.cold.slices import SLICE_BYTES, ColdSlice
from storage_core.read.columns import no_rows
from storage_core.read.row_filter import Int64s
from storage_core.read.rows import in_order

# What rows that are shown at once are meant to take, and how many they are at most.
SHOWN_BYTES: Final = 16 * 2**20
_SHOWN_ROWS: Final = 2**15
# A block may reach from some into the next.
_SHOWN_HELD: Final = 2


class _Piece:
    """A slice's rows as the files have them."""

    def __init__(self, some: ColdSlice, parts: Sequence[ColdPart]) -> None:
        self.range: Final = some.range
        self.parts: Final = tuple(parts)
        self.addresses: Final = _merged([one.addresses for one in parts])
        self.bytes_held: Final = sum(one.bytes_held for one in parts)
        a_row = max(1, self.bytes_held // max(1, len(self.addresses)))
        self._count: Final = max(1, min(_SHOWN_ROWS, SHOWN_BYTES // a_row))

    def about(self, address: int) -> AddressRange:
        """Return the addresses whose rows are shown together with those of an address."""
        at = int(np.searchsorted(self.addresses, address))
        first = at - at % self._count
        behind = first + self._count
        begin = int(self.addresses[first - 1]) + 1 if first else self.range.start
        if behind >= len(self.addresses):
            return AddressRange(begin, self.range.end)
        return AddressRange(begin, int(self.addresses[behind - 1]) + 1)


class ColdPieces:
    """The rows of a snapshot's parts by address. One thread at a time.

    What is asked for raises `FileNotFoundError` where a part has gone since the snapshot was made, and
    `CorruptionError` or `UnavailableError` where one is damaged or cannot be read now, if only
    where nobody asked: of few addresses `ColdRows.of_slice` tells.
    """

    def __init__(self, rows: ColdRows, columns: tuple[str, ...]) -> None:
        """Show rows with these columns, `address` among them."""
        self._rows = rows
        self._columns = columns
        self._pieces: OrderedDict[AddressRange, _Piece] = OrderedDict()
        self._shown: OrderedDict[AddressRange, pa.RecordBatch] = OrderedDict()
        # Whoever asks for a block of them asks for the next one, too.
        self._failed: list[AddressRange] = []

    def between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of addresses from one to before another, by address."""
        at = start
        while at < end and (shown := self._shown_at(at, end)) is not None:
            rows = self._shown[shown]
            first, behind = _places(
                rows.column("address").to_numpy(), AddressRange(at, min(shown.end, end))
            )
            if behind > first:
                yield rows.slice(first, behind - first)
            at = shown.end

    def _shown_at(self, address: int, end: int) -> AddressRange | None:
        """Return addresses whose rows are shown, the first there are from one to before another."""
        found = _about(self._shown, address)
        if found is None:
            piece = self._piece_at(address, end)
            if piece is None:
                return None
            found = piece.about(max(address, piece.range.start))
            if found not in self._shown:
                while len(self._shown) >= _SHOWN_HELD:
                    self._shown.popitem(last=False)
                self._shown[found] = self._show(piece, found)
        self._shown.move_to_end(found)
        return found

    def _piece_at(self, address: int, end: int) -> _Piece | None:
        found = _about(self._pieces, address)
        if found is None:
            if _about(self._failed, address) is not None:
                message = "a part that has rows nearby cannot be read"
                raise CorruptionError(message)
            some = self._rows.slices.at(address, end)
            if some is None:
                return None
            # Before a slice there may be addresses that no part has.
            found = _about(self._pieces, max(address, some.range.start))
            if found is None:
                found = some.range
                self._decode(some)
        self._pieces.move_to_end(found)
        return self._pieces[found]

    def _decode(self, some: ColdSlice) -> None:
        """Hold the rows of a slice, and of others as far as memory is meant to take them."""
        held = sum(one.bytes_held for one in self._pieces.values()) + some.held_bytes
        while self._pieces and held > SLICE_BYTES:
            held -= self._pieces.popitem(last=False)[1].bytes_held
        try:
            parts = self._rows.decoded(some, self._columns)
        except (CorruptionError, UnavailableError, FileNotFoundError):
            self._failed.append(some.range)
            raise
        self._pieces[some.range] = _Piece(some, parts)

    def _show(self, piece: _Piece, some: AddressRange) -> pa.RecordBatch:
        found = []
        for part in piece.parts:
            first, behind = _places(part.addresses, some)
            if behind > first:
                found.append(self._rows.shown(part, first, behind, self._columns))
        return in_order(found, ("address",), self._columns) if found else no_rows(self._columns)


def _about(ranges: Iterable[AddressRange], address: int) -> AddressRange | None:
    return next((one for one in ranges if one.start <= address < one.end), None)


def _merged(addresses: Sequence[Int64s]) -> Int64s:
    if len(addresses) == 1:
        return addresses[0]
    return np.sort(np.concatenate([*addresses, np.empty(0, np.int64)]))


def _places(addresses: Int64s, some: AddressRange) -> tuple[int, int]:
    """Return the places of the addresses, which ascend, that lie in a range."""
    first, behind = np.searchsorted(addresses, [some.start, some.end]).tolist()
    return first, behind
