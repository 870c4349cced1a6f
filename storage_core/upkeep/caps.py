"""Caps: how much a shard may hold, and the address below which the rest is cut.

A stream's cap is shared out evenly: each shard may hold its part, rounded up, whatever the others
do. The oldest go first, as they came: what a cap takes is a stretch of addresses at the log's head.

Of records exactly so many stay: those of the block that the cut goes through are hidden, and go
with it. Of bytes, which are those of blocks as they are stored, whole blocks go, and the newest
stays whatever it has.
"""

from collections import deque
from dataclasses import dataclass, field

from storage_core.catalog.options import StreamOptions
from storage_core.format.shard_state import AddressRange
from storage_core.read.view import ShardView


@dataclass(frozen=True, slots=True)
class Caps:
    """What one shard may hold; None for no bound."""

    records_max: int | None = None
    bytes_max: int | None = None

    @classmethod
    def of_each(cls, options: StreamOptions, shards: int) -> "Caps":
        """Return what each of so many shards may hold."""
        parts = (
            None if cap is None else -(-cap // max(1, shards))
            for cap in (options.records_max, options.bytes_max)
        )
        return cls(*parts)

    @property
    def are_any(self) -> bool:
        """Tell whether there is a bound."""
        return self.records_max is not None or self.bytes_max is not None


@dataclass(slots=True)
class _Sized:
    first: int
    end: int
    records: int
    bytes: int


@dataclass(slots=True)
class LogSizes:
    """How many records and bytes the committed blocks of a shard have.

    Remembered between two looks, so that the next asks for the zones that came since; after an
    opening all are asked for once. Who takes blocks from the middle forgets it. Under the shard's
    upkeep lock.
    """

    _blocks: deque[_Sized] = field(default_factory=deque)
    _records: int = 0
    _bytes: int = 0
    _gaps: tuple[AddressRange, ...] = ()

    def cut(self, view: ShardView, caps: Caps) -> tuple[int, int]:
        """Return the address below which all is too much, and how many rows this takes.

        It is the log's own cut if nothing is.
        """
        self._follow(view)
        records, size, cut = self._records, self._bytes, view.state.cut
        taken = -self._hidden(view)
        last = self._blocks[-1].first if self._blocks else 0
        for block in self._blocks:
            over = 0 if caps.records_max is None else records - caps.records_max
            is_too_large = caps.bytes_max is not None and size > caps.bytes_max
            if over >= block.records or (is_too_large and block.first != last):
                records, size, cut = records - block.records, size - block.bytes, block.end
                taken += block.records
                continue
            if over > 0:
                cut = _address_in(view, block.first, over)
                taken += over
            break
        return (cut, taken) if cut > view.state.cut else (view.state.cut, 0)

    def _hidden(self, view: ShardView) -> int:
        """Return how many rows of the first block were cut before."""
        cut = view.state.cut
        if not self._blocks or not self._blocks[0].first < cut < self._blocks[0].end:
            return 0
        block = view.block(view.zone_at(self._blocks[0].first))
        return int(block.addresses.searchsorted(cut))

    def _follow(self, view: ShardView) -> None:
        if view.state.gaps != self._gaps:
            # Blocks were given up.
            self._blocks.clear()
            self._records = self._bytes = 0
            self._gaps = view.state.gaps
        while self._blocks and self._blocks[0].first < view.state.start:
            gone = self._blocks.popleft()
            self._records -= gone.records
            self._bytes -= gone.bytes
        begin = self._blocks[-1].end if self._blocks else view.state.start
        for zone in view.zones(begin, view.committed):
            if zone.first >= begin and zone.end <= view.committed:
                self._blocks.append(_Sized(zone.first, zone.end, zone.count, zone.block_bytes))
                self._records += zone.count
                self._bytes += zone.block_bytes


def _address_in(view: ShardView, first: int, rows: int) -> int:
    """Return the address of the row behind so many of a block."""
    zone = view.zone_at(first)
    if zone.is_dense:
        return first + rows
    return int(view.block(zone).addresses[rows])
