"""Blocks rebuilt from parts: those below `trimmed`, whose bytes in the log are gone.

Zones stay when blocks are trimmed, and each says how many rows its block had and between which
addresses. Parts are sorted by id, so that the rows of one block lie all over them. So a slice of
addresses (slices.py) is read at once and held as its files have it, the payloads that they leave
out not rebuilt, beside the order of its addresses. Of that some thousand rows at a time are made
rows of the log, a window, and held, until others are asked for. It takes, at most and about,

    SLICE_BYTES (192 MiB)          of decoded rows, however many slices
    the largest column again       while a slice is put together
    twice WINDOW_BYTES (16 MiB)    of rows of the log, thrice that while they are made

A single row group that takes more, or rows that are unlike most of their part, take what they
take.

A wide zone (format/zone.py) has too many rows for one block: it is made window by window.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.block import Block
from storage_core.format.row_columns import COMMITTED
from storage_core.format.shard_state import AddressRange
from storage_core.format.zone import Zone
from storage_core.parts.part_home import OpenerOf, opener_of
from storage_core.parts.snapshot import index_of
from storage_core.platform.arrow import concat
from storage_core.read.cold.rows import ColdRows, DecodedPart
from storage_core.read.cold.slices import SLICE_BYTES, ColdSlice, ColdSlices
from storage_core.read.columns import no_rows
from storage_core.read.row_filter import Int64s
from storage_core.read.rows import in_order
from storage_core.read.rows_as_block import BLOCK_COLUMNS, rows_as_block, rows_as_piece
from storage_core.read.snapshot import ShardSnapshot

# What the rows of a window are meant to take, and how many they are at most.
WINDOW_BYTES: Final = 16 * 2**20
_WINDOW_ROWS: Final = 2**15
# A block may reach from one window into the next.
_WINDOWS_HELD: Final = 2


class _DecodedSlice:
    """A slice's rows as the files have them."""

    def __init__(self, cut: ColdSlice, parts: Sequence[DecodedPart]) -> None:
        self.range: Final = cut.range
        self.parts: Final = tuple(parts)
        self.addresses: Final = _merged([part.addresses for part in parts])
        self.bytes_held: Final = sum(part.bytes_held for part in parts)
        row_bytes = max(1, self.bytes_held // max(1, len(self.addresses)))
        self._window_rows: Final = max(1, min(_WINDOW_ROWS, WINDOW_BYTES // row_bytes))

    def window_about(self, address: int) -> AddressRange:
        """Return the addresses whose rows are made together with those of an address."""
        place = int(np.searchsorted(self.addresses, address))
        first = place - place % self._window_rows
        behind = first + self._window_rows
        begin = int(self.addresses[first - 1]) + 1 if first else self.range.start
        if behind >= len(self.addresses):
            return AddressRange(begin, self.range.end)
        return AddressRange(begin, int(self.addresses[behind - 1]) + 1)


class ColdBlocks:
    """Rebuilds blocks of one snapshot. One thread at a time."""

    def __init__(
        self, snapshot: ShardSnapshot, directory: Path, opener_of: OpenerOf = opener_of
    ) -> None:
        """Read the parts of a snapshot, whose files lie in a directory, or elsewhere.

        Raises:
            CorruptionError: An entry of the part list is damaged.
        """
        self._rows = ColdRows(snapshot, directory, opener_of)
        self._slices = ColdSlices(index_of(snapshot), snapshot.shard, directory, opener_of)
        self._begin(BLOCK_COLUMNS)

    def _begin(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._decoded: OrderedDict[AddressRange, _DecodedSlice] = OrderedDict()
        self._windows: OrderedDict[AddressRange, pa.RecordBatch] = OrderedDict()
        # Whoever asks for a block of them asks for the next one, too.
        self._failed: list[AddressRange] = []

    def block(self, zone: Zone) -> Block:
        """Return a zone's block as its parts have it.

        Raises:
            CorruptionError: A part is damaged or gone, or they do not have each row of the block.
            UnavailableError: The system does not let one be read now.
        """
        self._begin_with(zone)
        try:
            batches = list(self.between(zone.first, zone.end))
        except (CorruptionError, UnavailableError):
            # It need not be a part that has rows of this block.
            batches = [self._alone(AddressRange(zone.first, zone.end))]
        count = sum(rows.num_rows for rows in batches)
        if count != zone.count:
            message = f"the block has {zone.count} rows, its parts have {count}"
            raise CorruptionError(message)
        return rows_as_block(zone, concat(batches) if len(batches) > 1 else batches[0])

    def pieces(self, zone: Zone, some: AddressRange, *, back: bool) -> Iterator[tuple[Zone, Block]]:
        """Yield the rows of some addresses of a wide zone, each window a zone and its block.

        Args:
            zone: The zone.
            some: Addresses that it spans.
            back: Whether the last window comes first.

        Raises:
            CorruptionError: As `block` does; with the addresses of a part that is damaged.
        """
        self._begin_with(zone)
        for rows in self._windows_back(zone, some) if back else self._windows_of(zone, some):
            if rows.num_rows:
                yield rows_as_piece(zone, rows)

    def _begin_with(self, zone: Zone) -> None:
        if zone.is_joined and COMMITTED not in self._columns:
            # Most shards have no such zone, and need not read when each row was committed.
            self._begin((*BLOCK_COLUMNS, COMMITTED))

    def _windows_of(self, zone: Zone, some: AddressRange) -> Iterator[pa.RecordBatch]:
        address = some.start
        while address < some.end:
            try:
                window = self._window_at(address, some.end)
            except (CorruptionError, UnavailableError):
                window = AddressRange(address, address + _fewer(zone))
                yield self._alone(AddressRange(address, min(window.end, some.end)))
            else:
                if window is None:
                    return
                yield self._rows_in(window, AddressRange(address, some.end))
            address = window.end

    def _windows_back(self, zone: Zone, some: AddressRange) -> Iterator[pa.RecordBatch]:
        end = some.end
        while end > some.start:
            try:
                window = self._window_at(end - 1, end)
            except (CorruptionError, UnavailableError):
                window = AddressRange(max(some.start, end - _fewer(zone)), end)
                yield self._alone(window)
            else:
                if window is None:
                    # No part has the address below; others may end before it.
                    end = self._slices.end_before(some.start, end)
                    continue
                yield self._rows_in(window, AddressRange(some.start, end))
            end = window.start

    def _alone(self, some: AddressRange) -> pa.RecordBatch:
        """Return rows by the parts alone that have some, where another one cannot be read."""
        return self._rows.of_slice(self._slices.of(some.start, some.end), self._columns)

    def _rows_in(self, window: AddressRange, some: AddressRange) -> pa.RecordBatch:
        rows = self._windows[window]
        first, behind = _places(rows.column("address").to_numpy(), some)
        return rows.slice(first, behind - first)

    def between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of addresses from one to before another, by address.

        It raises also where a part cannot be read at addresses nearby.
        """
        address = start
        while address < end and (window := self._window_at(address, end)) is not None:
            rows = self._rows_in(window, AddressRange(address, end))
            if rows.num_rows:
                yield rows
            address = window.end

    def _window_at(self, address: int, end: int) -> AddressRange | None:
        """Return the first window with addresses from one to before another."""
        window = _about(self._windows, address)
        if window is None:
            decoded = self._slice_at(address, end)
            if decoded is None:
                return None
            window = decoded.window_about(max(address, decoded.range.start))
            if window not in self._windows:
                while len(self._windows) >= _WINDOWS_HELD:
                    self._windows.popitem(last=False)
                self._windows[window] = self._log_rows(decoded, window)
        self._windows.move_to_end(window)
        return window

    def _slice_at(self, address: int, end: int) -> _DecodedSlice | None:
        held = _about(self._decoded, address)
        if held is None:
            if _about(self._failed, address) is not None:
                message = "a part that has rows nearby cannot be read"
                raise CorruptionError(message)
            cut = self._slices.about(address, end)
            if cut is None:
                return None
            # Before a slice there may be addresses that no part has.
            held = _about(self._decoded, max(address, cut.range.start))
            if held is None:
                held = cut.range
                self._decode(cut)
        self._decoded.move_to_end(held)
        return self._decoded[held]

    def _decode(self, cut: ColdSlice) -> None:
        """Hold the rows of a slice, and of others as far as memory is meant to take them."""
        held = sum(decoded.bytes_held for decoded in self._decoded.values()) + cut.held_bytes
        while self._decoded and held > SLICE_BYTES:
            held -= self._decoded.popitem(last=False)[1].bytes_held
        try:
            parts = self._rows.decoded(cut, self._columns)
        except (CorruptionError, UnavailableError):
            self._failed.append(cut.range)
            raise
        self._decoded[cut.range] = _DecodedSlice(cut, parts)

    def _log_rows(self, decoded: _DecodedSlice, window: AddressRange) -> pa.RecordBatch:
        batches = []
        for part in decoded.parts:
            first, behind = _places(part.addresses, window)
            if behind > first:
                batches.append(self._rows.as_log_rows(part, first, behind, self._columns))
        return in_order(batches, ("address",), self._columns) if batches else no_rows(self._columns)


def _fewer(zone: Zone) -> int:
    """Return of how many addresses a wide zone has the rows of a window, about."""
    return _WINDOW_ROWS * max(1, (zone.end - zone.first) // zone.count)


def _about(ranges: Iterable[AddressRange], address: int) -> AddressRange | None:
    return next((some for some in ranges if some.start <= address < some.end), None)


def _merged(addresses: Sequence[Int64s]) -> Int64s:
    if len(addresses) == 1:
        return addresses[0]
    return np.sort(np.concatenate([*addresses, np.empty(0, np.int64)]))


def _places(addresses: Int64s, some: AddressRange) -> tuple[int, int]:
    """Return the places of the addresses, which ascend, that lie in a range."""
    first, behind = np.searchsorted(addresses, [some.start, some.end]).tolist()
    return first, behind
