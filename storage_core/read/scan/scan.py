"""Scans: a request over one snapshot, answered as Arrow batches.

    arrival, replay   blocks one after the other, zones prune, memory of 4 MiB and a block
    time              ascending slices of primaries, each sorted; memory of one slice
    primary           by (secondary, primary, address); with a limit it stops early; of these
                      only the newest as `latest_by` says (latest_by.py)
    newest            by heads, and by future-dated records above them (latest.py)

Normal rows come from blocks; in the sorted orders late and future-dated rows come from their own
copy. Where a sorted scan begins and ends is bounded by the windows it touches, and of few ids by
the index and their heads (id_ranges.py); from there zones skip blocks. Bounds are only a
shortcut: without them a scan takes time, and has the same rows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa

from storage_core.errors import LostRangeError
from storage_core.format.keys import INT64_MAX, late_key, late_window_key
from storage_core.format.late_rows import decode_late_rows
from storage_core.format.record import State
from storage_core.format.row_columns import SORT_COLUMNS
from storage_core.format.shard_state import AddressRange
from storage_core.format.window import Window
from storage_core.format.zone import Zone
from storage_core.read.columns import block_columns, late_columns
from storage_core.read.future_rows import AheadRows
from storage_core.read.request import ReadRequest
from storage_core.read.row_filter import RowFilter
from storage_core.read.rows import Collected, RowsOfEach, in_order
from storage_core.read.scan.id_ranges import SEEK_IDS_MAX, ranges_of_ids
from storage_core.read.scan.zone_fields import ZoneFields
from storage_core.read.snapshot import ShardSnapshot

_SLICE_ZONES: Final = 16
# So many addresses cost little to scan, whatever windows they belong to.
ADDRESSES_MIN: Final = 2**16


def scan_arrival(
    snapshot: ShardSnapshot, wanted: RowFilter
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield rows by address, each batch with the address the scan has reached.

    Raises:
        LostRangeError: Addresses asked for are gone: lost, or (replay) below the log's start.
    """
    begin, end = wanted.address_start, wanted.address_end
    if begin >= end:
        return
    snapshot.refuse_lost(begin, end)
    if wanted.is_replay and not wanted.with_ahead:
        yield from _scan_blocks(snapshot, wanted, begin, end)
        return
    ahead = AheadRows(snapshot, wanted)
    begin = max(begin, snapshot.state.start)
    yield from ahead.before(min(begin, end))
    if begin < end:
        for rows, reached in _scan_blocks(snapshot, wanted, begin, end):
            yield from ahead.before(reached)
            yield rows, reached
    yield from ahead.before(end)


def _scan_blocks(
    snapshot: ShardSnapshot, wanted: RowFilter, begin: int, end: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    is_replay = wanted.is_replay
    if begin < snapshot.state.start:
        raise _expired(snapshot, begin, snapshot.state.start)
    wants = partial(wanted.wants_zones, out_of_order=True)
    zones = snapshot.zones(begin, end, wants, with_expired=is_replay)
    if is_replay:
        zones = _none_expired(snapshot, zones, wanted.expired_until)
    if wanted.ids is not None:
        zones = filter(wanted.wants_ids_of, zones)
    for zone, block in snapshot.blocks_or_joined(zones, begin, end):
        states = block.states if zone.expired and not is_replay else None
        unexpired = None if states is None else states != State.EXPIRED
        chosen = wanted.choose(zone, block, states=unexpired)
        if chosen is None or len(chosen):
            yield block_columns(block, snapshot.shard, wanted.columns, chosen), zone.last + 1


def _none_expired(snapshot: ShardSnapshot, zones: Iterator[Zone], until: int) -> Iterator[Zone]:
    """Yield zones up to one whose blocks have expired since: a replay would be short by them."""
    for zone in zones:
        if not zone.is_expired:
            yield zone
        elif zone.gone_since > until:
            raise _expired(snapshot, zone.first, zone.end)


def _expired(snapshot: ShardSnapshot, start: int, end: int) -> LostRangeError:
    message = "the log no longer has these addresses: they have expired"
    return LostRangeError(
        message, stream=snapshot.stream, shard=snapshot.shard, start=start, end=end
    )


def scan_nothing(
    snapshot: ShardSnapshot, wanted: RowFilter
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield no row, once it is sure that none that was wanted is gone.

    Raises:
        LostRangeError: Addresses asked for are gone.
    """
    begin, end = wanted.address_start, wanted.address_end
    if begin < end:
        snapshot.refuse_lost(begin, end)
        if wanted.is_replay and begin < snapshot.state.start:
            raise _expired(snapshot, begin, snapshot.state.start)
    yield from ()


def scan_time(snapshot: ShardSnapshot, wanted: RowFilter) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield ascending slices of primaries, each with the last primary it covers.

    Rows of a slice are sorted by (primary, secondary, address).
    """
    for last, batches in scan_slices(snapshot, wanted):
        yield in_order(batches, ("primary", "secondary", "address"), wanted.columns), last


def scan_primary(
    snapshot: ShardSnapshot, wanted: RowFilter, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """Yield all rows sorted by (secondary, primary, address), at most `limit` an id (0: all).

    Raises:
        InvalidRequestError: They come to more than the request's `bytes_max`.
    """
    limit = request.limit
    collected = Collected(request.bytes_max)
    if not limit or wanted.ids is None:
        sorting = tuple(dict.fromkeys((*wanted.columns, *SORT_COLUMNS)))
        for rows in scan_pieces(snapshot, replace(wanted, columns=sorting)):
            collected.add(rows)
    else:
        seen = RowsOfEach(wanted.ids, limit)
        for _, batches in scan_slices(snapshot, wanted):
            for rows in batches:
                collected.add(rows)
                seen.add(rows)
            if seen.is_enough:
                break
    if collected.batches:
        yield in_order(collected.batches, SORT_COLUMNS, wanted.columns, limit)


def scan_pieces(snapshot: ShardSnapshot, wanted: RowFilter) -> Iterator[pa.RecordBatch]:
    """Yield all rows piece by piece, in no order."""
    if wanted.start <= wanted.end and wanted.address_start < wanted.address_end:
        snapshot.refuse_lost(wanted.address_start, wanted.address_end)
        yield from _normal_rows(snapshot, wanted, _normal_zones(snapshot, wanted), is_once=True)
        yield from out_of_order_rows(snapshot, wanted)


def scan_slices(
    snapshot: ShardSnapshot, wanted: RowFilter
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Yield (last primary of the slice, its rows unsorted), slices ascending and disjoint.

    The rows have the columns wanted and those to sort them by.
    """
    if wanted.start > wanted.end or wanted.address_start >= wanted.address_end:
        return
    snapshot.refuse_lost(wanted.address_start, wanted.address_end)
    sorting = tuple(dict.fromkeys((*wanted.columns, *SORT_COLUMNS)))
    wanted = replace(wanted, columns=sorting)
    first = wanted.start
    for windows in _windows_of(snapshot, wanted):
        last = min(snapshot.scheme.last_of(windows.last), wanted.end)
        fields = ZoneFields(
            _normal_zones(snapshot, replace(wanted, start=first, end=last), windows)
        )
        for upto in fields.cuts(first, last, _SLICE_ZONES):
            part = replace(wanted, start=first, end=upto)
            if batches := _rows_of(snapshot, part, fields.zones(first, upto)):
                yield upto, batches
            first = upto + 1
    if first <= wanted.end and (
        batches := _rows_of(snapshot, replace(wanted, start=first), iter(()))
    ):
        yield wanted.end, batches


@dataclass(frozen=True, slots=True)
class WindowRange:
    """Neighbouring windows up to `last`, whose normal rows have addresses in [start, end)."""

    last: int
    start: int
    end: int

    def takes(self, start: int, end: int) -> bool:
        """Tell whether addresses of the next window are better looked through with these."""
        together = max(end, self.end) - min(start, self.start)
        shared = min(end, self.end) - max(start, self.start)
        return together <= ADDRESSES_MIN or 2 * shared > min(end - start, self.end - self.start)


def window_ranges(windows: Iterable[tuple[int, Window]]) -> list[WindowRange]:
    """Return ascending windows as ranges that are scanned one after the other.

    Rows that come about in the order of their primaries lie window after window, so a scan that
    may stop early begins with the blocks of the first windows and asks for no others. Windows whose
    blocks lie among each other's are taken together, lest each ask for the same blocks again.
    Windows without normal rows are in none.
    """
    ranges: list[WindowRange] = []
    for number, window in windows:
        start, end = window.address_min, window.address_last + 1
        if start >= end:
            continue
        if ranges and ranges[-1].takes(start, end):
            start, end = min(start, ranges[-1].start), max(end, ranges[-1].end)
            ranges.pop()
        ranges.append(WindowRange(number, start, end))
    return ranges


def _windows_of(snapshot: ShardSnapshot, wanted: RowFilter) -> list[WindowRange]:
    scheme = snapshot.scheme
    return window_ranges(snapshot.windows(scheme.of(wanted.start), scheme.of(wanted.end)))


def _normal_zones(
    snapshot: ShardSnapshot, wanted: RowFilter, windows: WindowRange | None = None
) -> Iterator[Zone]:
    """Yield the zones that can hold wanted normal rows: those of some windows, or of all."""
    touched = _windows_of(snapshot, wanted) if windows is None else [windows]
    begin = max(min((one.start for one in touched), default=0), wanted.address_start)
    end = min(max((one.end for one in touched), default=0), wanted.address_end)
    begin = max(begin, snapshot.state.start)
    if begin >= end:
        return
    wants = partial(wanted.wants_zones, out_of_order=False)
    reached = 0
    for first, last in ranges_of_ids(snapshot, wanted, begin, end):
        for zone in snapshot.zones(first, last, wants):
            # A block may reach from one range into the next.
            if zone.end <= reached:
                continue
            reached = zone.end
            if wanted.wants_ids_of(zone) and zone.may_hold_normal(wanted.start, wanted.end):
                yield zone


def _rows_of(
    snapshot: ShardSnapshot, wanted: RowFilter, zones: Iterator[Zone]
) -> list[pa.RecordBatch]:
    """Return wanted rows: normal ones of these zones, the out-of-order ones from their copies."""
    return [*_normal_rows(snapshot, wanted, zones), *out_of_order_rows(snapshot, wanted)]


def _normal_rows(
    snapshot: ShardSnapshot, wanted: RowFilter, zones: Iterator[Zone], *, is_once: bool = False
) -> Iterator[pa.RecordBatch]:
    is_of_few = wanted.keys is not None if snapshot.meta.has_keys else wanted.ids is not None
    if snapshot.state.trimmed:
        # Parts are sorted by id or key: of few they read some groups of rows, and no block whole.
        # Of all, rows of any time lie all over them, so whoever comes back for the next time has
        # blocks made of them, and whoever does not spares the making. Of a wide zone that would be
        # all of its blocks for each time.
        runs, zones = _trimmed_runs(snapshot, zones, are_all=is_of_few or is_once)
        if runs:
            yield from snapshot.trimmed.normal(wanted, runs)
    for zone, block in snapshot.blocks_or_joined(zones):
        states = block.states
        chosen = wanted.choose(zone, block, states=None if states is None else states == 0)
        if chosen is None or len(chosen):
            yield block_columns(block, snapshot.shard, wanted.columns, chosen)


def _trimmed_runs(
    snapshot: ShardSnapshot, zones: Iterator[Zone], *, are_all: bool
) -> tuple[list[AddressRange], Iterator[Zone]]:
    """Return the addresses of the first zones, which were trimmed, and the others.

    If not all of those, then the wide ones, of which no scan has blocks made again and again.
    """
    runs: list[AddressRange] = []
    for zone in zones:
        if zone.end > snapshot.state.trimmed or not (are_all or zone.is_wide):
            return runs, chain((zone,), zones)
        for some in snapshot.ranges_of(zone):
            begin = some.start
            if runs and begin == zone.first and runs[-1].end == zone.previous_end:
                begin = runs.pop().start
            runs.append(AddressRange(begin, some.end))
    return runs, iter(())


def out_of_order_rows(snapshot: ShardSnapshot, wanted: RowFilter) -> Iterator[pa.RecordBatch]:
    """Yield the wanted late and future-dated rows of a snapshot, by their copies."""
    window = snapshot.late_window_at_or_after(snapshot.scheme.of(wanted.start))
    last = snapshot.scheme.of(wanted.end)
    while window is not None and window <= last:
        keys: list[bytes] = []
        values: list[bytes] = []
        for first_key, end_key in _late_ranges(window, wanted):
            for key, value in snapshot.late_items(window, first_key, end_key):
                keys.append(key)
                values.append(value)
        if keys:
            late = decode_late_rows(keys, values)
            chosen = wanted.choose_late(late)
            if len(chosen):
                yield late_columns(late, snapshot.shard, wanted.columns, chosen)
        window = snapshot.late_window_at_or_after(window + 1)


def _late_ranges(window: int, wanted: RowFilter) -> Iterator[tuple[bytes, bytes]]:
    if wanted.ids is None or len(wanted.ids) > SEEK_IDS_MAX:
        yield late_window_key(window), late_window_key(window) + b"\xff" * 21
        return
    for secondary in wanted.ids.tolist():
        first = late_key(window, secondary, wanted.start, 0)
        yield first, late_key(window, secondary, wanted.end, INT64_MAX) + b"\x00"
