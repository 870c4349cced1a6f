"""A snapshot of a shard, as reads see it: clipped to committed, its chain of zones proven.

Writers and followers make the same kind of snapshot; all reading code stands on it. The zones of
a shard form a chain (each names the end of the one before), and the tail names the end of the
last block: a reader whose store misses a piece in the middle or at the end cannot take the
rest for the whole. One thread at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.catalog.stream_meta import StreamMeta
from storage_core.engine.key_value import Item, StoreSnapshot
from storage_core.errors import CorruptionError, LostRangeError
from storage_core.format.block import BlockPlace
from storage_core.format.keys import (
    FAMILY_DEFAULT,
    FAMILY_LOG,
    PREFIX_LATE,
    PREFIX_ZONE,
    dead_letter_key,
    decode_dead_letter_key,
    decode_window_key,
    late_window_key,
    log_key,
    window_key,
    zone_key,
)
from storage_core.format.shard_state import STATE_RANGE, AddressRange, ShardState, decode_state
from storage_core.format.window import Window, decode_window
from storage_core.format.zone import Zone, ZoneChunk, decode_zones
from storage_core.ids.heads.grouping import Int32s
from storage_core.ids.heads.table import Heads
from storage_core.read.block_reads import BlockReads, RebuiltBlocks
from storage_core.read.row_filter import RowFilter

_ZONES_FIRST: Final = 8
_ZONES_MOST: Final = 1024
_ZONES_BYTES: Final = 2**20

ZoneMask = npt.NDArray[np.bool_]


class TrimmedRows(RebuiltBlocks, Protocol):
    """The rows of a snapshot's blocks that were trimmed."""

    def normal(self, wanted: RowFilter, runs: Sequence[AddressRange]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of addresses that were neither late nor future-dated, unsorted."""
        ...


TrimmedRowsOf = Callable[["ShardSnapshot"], TrimmedRows]


class ShardSnapshot:
    """A snapshot of one shard."""

    def __init__(  # noqa: PLR0913 - what makes a snapshot
        self,
        place: BlockPlace,
        meta: StreamMeta,
        state: ShardState,
        committed: int,
        store: StoreSnapshot,
        trimmed_rows_of: TrimmedRowsOf,
        heads_for: Callable[["ShardSnapshot", Int32s | None], Heads] | None = None,
    ) -> None:
        """Take over a view of the store, which `close` closes.

        `committed` was read before the state, so the state holds all that it covers.
        `trimmed_rows_of` gives the rows of blocks that were trimmed. `heads_for` gives the heads
        of the same snapshot; not every snapshot is asked for them.

        Whoever makes it may know more: `has_index`, that there are entries of the sparse index;
        `has_whole_heads`, that none of the heads on disk can be missing. A reader in another
        process never knows: its store may lack what was written at one time.
        """
        self.meta = meta
        self.stream = meta.name
        self.place = place
        self.scheme = meta.scheme
        self.jitter = meta.jitter
        self.route_mask = meta.route_mask
        self.state = state
        self.committed = committed
        blocks = self._blocks = BlockReads(
            meta.name, place, store, state.trimmed, state.expired_end, self._parts, state.gaps
        )
        self.block, self.blocks = blocks.block, blocks.blocks
        self.block_at, self.pieces, self.ranges_of = (
            blocks.block_at,
            blocks.pieces,
            blocks.ranges_of,
        )
        self.blocks_or_joined, self.block_of_several = blocks.blocks_or_joined, blocks.several
        self.unreadable, self.gone_with_parts = blocks.unreadable, blocks.gone_with_parts
        self._trimmed_rows_of = trimmed_rows_of
        self._trimmed: TrimmedRows | None = None
        self._store = store
        self._heads_for = heads_for
        self.has_index = state.index.entries > 0
        self.has_whole_heads = False

    @property
    def shard(self) -> int:
        """The shard's number."""
        return self.place.shard

    def close(self) -> None:
        """Close it; its files may be deleted then."""
        # Both refer to this snapshot: a cycle would stay until the garbage collector runs.
        self._trimmed = None
        self._blocks.close()
        self._store.close()

    def zones(
        self,
        start: int,
        end: int,
        wants: Callable[[ZoneChunk], ZoneMask] | None = None,
        *,
        with_expired: bool = False,
    ) -> Iterator[Zone]:
        """Yield the zones with addresses in the range, in order, none missing.

        Args:
            start: First address.
            end: Exclusive end of addresses.
            wants: Says of neighbouring zones which of them are wanted.
            with_expired: Also those whose blocks have expired, wanted or not.

        Raises:
            CorruptionError: The chain is broken.
        """
        reached = max(start, self.state.start)
        for chunk in self._zone_chunks(reached, end):
            fields = chunk.fields
            self._check_chain(chunk, reached, start, end)
            reached = int(fields["last"][-1]) + 1
            is_inside = (fields["last"] >= start) & (fields["first"] < end)
            wanted = is_inside & (fields["count"] > 0)
            if wants is not None:
                wanted &= wants(chunk)
            if with_expired:
                wanted |= is_inside & (fields["count"] == 0)
            for position in np.flatnonzero(wanted).tolist():
                zone = chunk.zone(position)
                if not self.state.gaps or not self._is_gap(zone):
                    yield zone
            if reached >= end:
                return
        if self.state.tail.blocks_end > max(reached, start):
            self._refuse_hole(reached, min(end, self.state.tail.blocks_end))

    def first_committed_ms(self, start: int) -> int | None:
        """Return when the first row at or above an address was committed; None without one.

        Raises:
            CorruptionError: The chain of zones is broken, or rows of a wide zone cannot be read.
        """
        start = max(start, self.state.start)
        first = next(self.zones(start, self.committed), None) if start < self.committed else None
        if first is None or not first.is_wide:
            return None if first is None else first.committed_at_ms
        _, block = self.block_at(first, start)
        return int(block.committed_times[0])

    def zones_back(self, start: int, end: int) -> Iterator[Zone]:
        """Yield the zones with addresses in the range, the last first, none missing.

        Raises:
            CorruptionError: The chain is broken.
        """
        start = max(start, self.state.start)
        above = self._store.at_or_after(FAMILY_DEFAULT, zone_key(end))
        reached = self.state.tail.blocks_end
        if above is not None and above[0][:1] == PREFIX_ZONE:
            reached = decode_zones([above], self.shard).zone(0).previous_end
        end = min(end, reached)
        while start < end:
            item = self._store.at_or_before(FAMILY_DEFAULT, zone_key(end - 1))
            if item is None or item[0][:1] != PREFIX_ZONE:
                self._refuse_hole(start, reached)
            zone = decode_zones([item], self.shard).zone(0)
            if zone.end != reached:
                self._refuse_hole(zone.end, reached)
            if not (zone.is_expired or self._is_gap(zone)):
                yield zone
            end = reached = zone.previous_end

    def expired(self, start: int, end: int) -> Iterator[Zone]:
        """Yield the zones of the range whose blocks have expired behind one that has not."""
        if start < self.state.expired_end:
            for zone in self.zones(start, end, _none_of, with_expired=True):
                if zone.is_expired:
                    yield zone

    def zone_at(self, address: int) -> Zone:
        """Return the zone of the block that spans an address.

        Raises:
            CorruptionError: There is none.
        """
        item = self._store.at_or_before(FAMILY_DEFAULT, zone_key(address))
        if item is not None and item[0][:1] == PREFIX_ZONE:
            zone = decode_zones([item], self.shard).zone(0)
            if zone.last >= address and not zone.is_expired:
                return zone
        message = "a head points at an address without a block"
        raise CorruptionError(
            message, stream=self.stream, shard=self.shard, start=address, end=address + 1
        )

    def _zone_chunks(self, start: int, end: int) -> Iterator[ZoneChunk]:
        """Yield zones from the one that holds `start` (or the next) on, ever more at a time.

        The first behind `end` comes alone, at last: whoever has not reached `end` by then learns
        from it whether one is missing. Of many ids a zone has some ten thousand bytes: about a
        mebibyte at a time.
        """
        begin = self._store.at_or_before(FAMILY_DEFAULT, zone_key(start))
        key = zone_key(start)
        if begin is not None and begin[0][:1] == PREFIX_ZONE:
            key = begin[0]
        items = self._store.items(FAMILY_DEFAULT, key, zone_key(end))
        size = _ZONES_FIRST
        while taken := list(islice(items, size)):
            yield decode_zones(taken, self.shard)
            held = sum(len(value) for _, value in taken)
            size = max(1, min(2 * size, _ZONES_MOST, _ZONES_BYTES * len(taken) // held))
        behind = self._store.at_or_after(FAMILY_DEFAULT, zone_key(end))
        if behind is not None and behind[0][:1] == PREFIX_ZONE:
            yield decode_zones([behind], self.shard)

    def _check_chain(self, chunk: ZoneChunk, reached: int, start: int, end: int) -> None:
        """Refuse zones of which one is missing, the first compared with what was reached."""
        fields = chunk.fields
        first, previous_end = int(fields["first"][0]), int(fields["previous_end"][0])
        is_begin = reached == max(start, self.state.start)
        broken_first = (
            (first > start and previous_end > reached) if is_begin else (previous_end != reached)
        )
        if broken_first:
            self._refuse_hole(reached, first)
        # What lies behind the range is not asked for.
        ends = fields["last"][:-1] + 1
        breaks = np.flatnonzero((fields["previous_end"][1:] != ends) & (ends < end))
        if len(breaks):
            before = int(breaks[0])
            self._refuse_hole(int(fields["last"][before]) + 1, int(fields["first"][before + 1]))

    def rebuild_by(self, trimmed_rows_of: TrimmedRowsOf) -> None:
        """Take the rows of blocks that were trimmed from elsewhere; none were read yet."""
        assert self._trimmed is None, "rows of trimmed blocks were read already"
        self._trimmed_rows_of = trimmed_rows_of

    @property
    def trimmed(self) -> TrimmedRows:
        """The rows of blocks that were trimmed."""
        if self._trimmed is None:
            self._trimmed = self._trimmed_rows_of(self)
        return self._trimmed

    def _parts(self) -> TrimmedRows:
        return self.trimmed

    def windows(self, first: int, last: int) -> Iterator[tuple[int, Window]]:
        """Yield the windows in the closed range of window numbers that have a summary."""
        for key, data in self._store.items(
            FAMILY_DEFAULT, window_key(first), window_key(last) + b"\x00"
        ):
            yield decode_window_key(key), decode_window(data)

    def late_items(
        self, window: int, key_first: bytes, key_end: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield committed late records of one window whose key lies in the range."""
        end = min(key_end, late_window_key(window) + b"\xff" * 21)
        for key, value in self._store.items(FAMILY_DEFAULT, key_first, end):
            if self.shows(int.from_bytes(key[-8:], "big")):
                yield key, value

    def late_window_at_or_after(self, window: int) -> int | None:
        """Return the first window from this one on that has a late record, committed or not."""
        item = self._store.at_or_after(FAMILY_DEFAULT, late_window_key(window))
        if item is None or item[0][:1] != PREFIX_LATE:
            return None
        return decode_window_key(item[0][:9])

    def dead_letters(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the dead letters of a range, committed or not, each with its address."""
        first, last = dead_letter_key(start), dead_letter_key(end)
        for key, raw in self._store.items(FAMILY_DEFAULT, first, last):
            yield decode_dead_letter_key(key), raw

    def committed_dead_letters(self, start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range, each with its address."""
        committed = self.committed
        return self.dead_letters(start, committed if end is None else min(end, committed))

    def meta_items(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Yield items of the default family as they stand."""
        return self._store.items(FAMILY_DEFAULT, start, end)

    def item_at_or_before(self, key: bytes) -> Item | None:
        """Return the item of the default family with the largest key not above this one."""
        return self._store.at_or_before(FAMILY_DEFAULT, key)

    def item_at_or_after(self, key: bytes) -> Item | None:
        """Return the item of the default family with the least key not below this one."""
        return self._store.at_or_after(FAMILY_DEFAULT, key)

    def value_at(self, key: bytes) -> bytes | None:
        """Return what lies under a key; by iterator, since a reader's `get` goes stale."""
        item = self._store.at_or_after(FAMILY_DEFAULT, key)
        return item[1] if item is not None and item[0] == key else None

    def heads(self, ids: Int32s | None) -> Heads:
        """Return the heads of sorted ids, or of all, as of committed."""
        assert self._heads_for is not None, "this snapshot was made without heads"
        return self._heads_for(self, ids)

    def refuse_lost(self, start: int, end: int) -> None:
        """Raise if acknowledged addresses in the range are gone."""
        for lost in self.state.lost:
            if lost.overlaps(start, end):
                message = "acknowledged addresses are gone; repair them or accept the loss"
                raise LostRangeError(
                    message,
                    stream=self.stream,
                    shard=self.shard,
                    start=lost.start,
                    end=lost.end,
                )

    def stored_bytes(self, start: int, end: int) -> int:
        """Return how many bytes the store itself has of the blocks of a range."""
        return self._store.bytes_under(FAMILY_LOG, log_key(start), log_key(end))

    def shows(self, address: int) -> bool:
        """Tell whether a record is committed and its block was not accepted as lost."""
        return address < self.committed and not any(
            gap.start <= address < gap.end for gap in self.state.gaps
        )

    def _is_gap(self, zone: Zone) -> bool:
        return any(gap.start <= zone.first and zone.end <= gap.end for gap in self.state.gaps)

    def _refuse_hole(self, start: int, end: int) -> NoReturn:
        message = "the chain of zones is broken"
        raise CorruptionError(
            message, stream=self.stream, shard=self.shard, start=start, end=max(start + 1, end)
        )


def _none_of(chunk: ZoneChunk) -> ZoneMask:
    return np.zeros(len(chunk.fields), dtype=np.bool_)


def whole_snapshot(
    place: BlockPlace,
    meta: StreamMeta,
    born: int,
    store: StoreSnapshot,
    trimmed_rows_of: TrimmedRowsOf,
) -> ShardSnapshot:
    """Return a snapshot of all that is written, committed or not.

    Raises:
        CorruptionError: The state cannot be read; the snapshot of the store is closed.
    """
    try:
        state = decode_state(list(store.items(FAMILY_DEFAULT, *STATE_RANGE)), place.shard, born)
    except BaseException:
        store.close()
        raise
    return ShardSnapshot(place, meta, state, state.tail.next, store, trimmed_rows_of)
