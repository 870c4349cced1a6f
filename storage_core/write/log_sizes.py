"""How many records and bytes a shard's committed blocks have, for the limits of a stream.

Of records exactly so many stay: those of the block that the cut goes through are hidden, and go
with it. Future-dated rows that have outlived their blocks are records too, by where they came. Of
bytes, which are those of blocks as they are stored, whole blocks go, and the newest stays whatever
it has.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.shard_state import AddressRange
from storage_core.read.ahead_places import RowPlaces, ahead_between
from storage_core.read.future_rows import without_blocks
from storage_core.read.snapshot import ShardSnapshot

Int64s = npt.NDArray[np.int64]

_NONE: Final = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class _BlockSize:
    first: int
    end: int
    records: int
    bytes: int


@dataclass(slots=True)
class LogSizes:
    """How many records and bytes the committed blocks of a shard have.

    It remembers them, so that each call reads only the zones that came since; the first reads all.
    Whoever deletes blocks from the middle forgets it. Under the shard's maintenance lock.
    """

    _blocks: deque[_BlockSize] = field(default_factory=deque)
    _records: int = 0
    _bytes: int = 0
    _gaps: tuple[AddressRange, ...] = ()
    _rows_without_blocks: RowPlaces = field(default_factory=lambda: RowPlaces.of([]))
    _generation: int | None = None

    def cut(
        self, view: ShardSnapshot, floor: int, records_max: int | None, bytes_max: int | None
    ) -> tuple[int, int]:
        """Return the address below which all exceeds a limit, and how many rows this takes.

        It is the log's own cut if nothing does. Rows without blocks count while they are not below
        the floor.
        """
        self._follow(view)
        addresses = _NONE if records_max is None else self._without_blocks(view, floor)
        by_records, in_block = self._cut_by_records(view, records_max, addresses)
        cut = max(by_records, self._cut_by_bytes(bytes_max))
        if cut <= view.state.cut:
            return view.state.cut, 0
        whole = (block.records for block in takewhile(lambda block: block.end <= cut, self._blocks))
        inside = in_block if cut == by_records else 0
        taken = sum(whole) + inside + int(self._without_blocks(view, floor).searchsorted(cut))
        return cut, taken - self._hidden(view)

    def _cut_by_records(
        self, view: ShardSnapshot, records_max: int | None, addresses: Int64s
    ) -> tuple[int, int]:
        """Return the address behind as many records as exceed the limit, and those of its block."""
        over = 0 if records_max is None else self._records + len(addresses) - records_max
        if over <= 0:
            return 0, 0
        passed = 0
        for block in self._blocks:
            before = int(addresses.searchsorted(block.first))
            if passed + before >= over:
                break
            rest = over - passed - before
            if rest < block.records:
                return _address_in(view, block.first, rest), rest
            passed += block.records
            if rest == block.records:
                return block.end, 0
        return int(addresses[over - passed - 1]) + 1, 0

    def _cut_by_bytes(self, bytes_max: int | None) -> int:
        """Return the end of the blocks that exceed the limit; the newest never does."""
        size, cut = self._bytes, 0
        if bytes_max is not None and size > bytes_max:
            for block in islice(self._blocks, len(self._blocks) - 1):
                size, cut = size - block.bytes, block.end
                if size <= bytes_max:
                    break
        return cut

    def _without_blocks(self, view: ShardSnapshot, floor: int) -> Int64s:
        """Return the addresses of ahead rows without blocks; they change when something goes."""
        if view.state.generation != self._generation:
            self._generation = view.state.generation
            self._rows_without_blocks = RowPlaces.of([])
            if view.state.tail.counters.ahead:
                places = ahead_between(view, None, INT64_MIN, INT64_MAX)
                places = places.where(without_blocks(view, places))
                self._rows_without_blocks = places.where(np.argsort(places.address))
        is_shown = (self._rows_without_blocks.primary >= floor) & (
            self._rows_without_blocks.address >= view.state.cut
        )
        return self._rows_without_blocks.address[is_shown]

    def _hidden(self, view: ShardSnapshot) -> int:
        """Return how many rows of the first blocks were cut before."""
        cut, hidden = view.state.cut, 0
        for block in takewhile(lambda block: block.first < cut, self._blocks):
            hidden += block.records if block.end <= cut else _rows_below(view, block.first, cut)
        return hidden

    def _follow(self, view: ShardSnapshot) -> None:
        if view.state.gaps != self._gaps:
            # Their loss was accepted.
            self._blocks.clear()
            self._records = self._bytes = 0
            self._gaps = view.state.gaps
            self._generation = None
        while self._blocks and self._blocks[0].first < view.state.start:
            self._count_out(self._blocks.popleft())
        begin = self._blocks[-1].end if self._blocks else view.state.start
        for zone in view.zones(begin, view.committed):
            # Where blocks were trimmed since, one zone may stand for the last of them and others.
            while self._blocks and self._blocks[-1].end > zone.first:
                self._count_out(self._blocks.pop())
            if zone.end <= view.committed:
                self._blocks.append(_BlockSize(zone.first, zone.end, zone.count, zone.block_bytes))
                self._records += zone.count
                self._bytes += zone.block_bytes

    def _count_out(self, block: _BlockSize) -> None:
        self._records -= block.records
        self._bytes -= block.bytes


def _address_in(view: ShardSnapshot, first: int, rows: int) -> int:
    """Return the address of the row behind so many of a block."""
    zone = view.zone_at(first)
    if zone.is_dense:
        return first + rows
    for _, block in view.pieces(zone, first):
        # Where blocks were trimmed since, one zone may stand for some before it too.
        addresses = block.addresses[block.addresses.searchsorted(first) :]
        if rows < len(addresses):
            return int(addresses[rows])
        rows -= len(addresses)
    return zone.end


def _rows_below(view: ShardSnapshot, first: int, cut: int) -> int:
    """Return how many rows of a block lie below an address."""
    rows = 0
    for _, block in view.pieces(view.zone_at(first), first, cut):
        begin, end = block.addresses.searchsorted([first, cut]).tolist()
        rows += end - begin
    return rows
