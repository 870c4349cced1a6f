"""Scans: a request over one view, answered as Arrow batches.

    arrival, replay   blocks one after the other, zones prune, memory of 4 MiB and a block
    time              ascending slices of primaries, each sorted; memory of one slice
    primary           by (secondary, primary, address); with a limit it stops early
    newest            by heads, and by ahead records above them (latest.py)

Normal rows come from blocks; in the sorted orders late and ahead rows come from their own
copy. Where a sorted scan begins and ends is bounded by the windows it touches; from there
zones skip blocks. Bounds are only a shortcut: they cost time, never a row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.errors import InvalidRequestError, LostRangeError
from storage_core.format.block import Block
from storage_core.format.keys import INT64_MAX, INT64_MIN, late_key, late_window_key
from storage_core.format.late_rows import LateRows, decode_late_rows
from storage_core.format.record import State
from storage_core.format.zone import Zone, ZoneChunk
from storage_core.ground.arrow import concat, int_array
from storage_core.read.columns import (
    READ_COLUMNS,
    TAIL_COLUMNS,
    Positions,
    block_columns,
    late_columns,
    read_schema,
)
from storage_core.read.request import ReadRequest
from storage_core.read.stretches import Stretch, stretches
from storage_core.read.view import ShardView
from storage_core.read.zone_heads import ZoneHeads

Int32s = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_SLICE_ZONES: Final = 16
_SEEK_IDS_MAX: Final = 64
_SORT_COLUMNS: Final = ("secondary", "primary", "address")


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows a request wants, ready to be asked of columns."""

    start: int
    end: int
    address_start: int
    address_end: int
    ids: Int32s | None
    versions: npt.NDArray[np.uint16] | None
    columns: tuple[str, ...]

    @property
    def is_all_primaries(self) -> bool:
        """Tell whether every primary is wanted."""
        return self.start == INT64_MIN and self.end == INT64_MAX

    def wants_zones(self, chunk: ZoneChunk, *, flagged: bool) -> Mask:
        """Tell which blocks can hold a wanted primary."""
        heads = chunk.heads
        if self.is_all_primaries:
            return np.ones(len(heads), dtype=np.bool_)
        wanted: Mask = (heads["primary_min"] <= self.end) & (heads["primary_max"] >= self.start)
        if flagged:
            wanted |= (heads["flagged_min"] <= self.end) & (heads["flagged_max"] >= self.start)
        return wanted

    def wants_ids_of(self, zone: Zone) -> bool:
        """Tell whether a block can hold a wanted id."""
        return self.ids is None or zone.may_hold_ids(self.ids)

    def has_version(self, block: Block) -> Mask:
        """Tell of each row whether it has a wanted version."""
        versions = block.versions
        if versions is None:
            versions = np.zeros(len(block), dtype=np.uint16)
        if self.versions is None:
            return np.ones(len(block), dtype=np.bool_)
        return np.isin(versions, self.versions)

    def choose(self, zone: Zone, block: Block, *, states: Mask | None) -> Positions | None:
        """Return the positions of wanted rows among those `states` admits; None for all."""
        mask = states
        is_inside = self.is_all_primaries or (
            self.start <= zone.primary_min
            and zone.primary_max <= self.end
            and zone.flagged_min > zone.flagged_max
        )
        if not is_inside:
            primaries = block.primaries
            mask = _both(mask, (primaries >= self.start) & (primaries <= self.end))
        if self.ids is not None:
            mask = _both(mask, _is_among(block.secondaries, self.ids))
        if self.versions is not None:
            mask = _both(mask, self.has_version(block))
        if zone.first < self.address_start or zone.last >= self.address_end:
            addresses = block.addresses
            mask = _both(mask, (addresses >= self.address_start) & (addresses < self.address_end))
        if mask is None or mask.all():
            return None
        return np.flatnonzero(mask)


def filter_for(view: ShardView, request: ReadRequest) -> RowFilter:
    """Return a request clipped to what the view may show."""
    bounds = view.bounds
    first, last = request.start_address, request.end_address
    start = request.start if request.order == "replay" else max(request.start, bounds.floor)
    columns = request.columns
    if columns is None:
        columns = TAIL_COLUMNS if request.order == "replay" else READ_COLUMNS
    return RowFilter(
        start,
        request.end,
        # Below its birth a shard never had anything, so there is nothing to miss there.
        bounds.start if first is None else max(first, bounds.born),
        bounds.committed if last is None else min(last, bounds.committed),
        None if request.ids is None else np.unique(np.array(request.ids, dtype=np.int32)),
        None if request.versions is None else np.array(request.versions, dtype=np.uint16),
        columns,
    )


def scan_arrival(view: ShardView, request: ReadRequest) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield rows by address, each batch with the address the scan has reached.

    Raises:
        LostRangeError: Addresses asked for are gone: lost, or (replay) below the log's start.
    """
    wanted = filter_for(view, request)
    is_replay = request.order == "replay"
    begin, end = wanted.address_start, wanted.address_end
    if begin >= end:
        return
    if is_replay and begin < view.bounds.start:
        message = "the log starts above these addresses: they have expired"
        raise LostRangeError(
            message, stream=view.stream, shard=view.shard, start=begin, end=view.bounds.start
        )
    view.refuse_lost(begin, end)
    shard = view.shard
    found = view.zones(begin, end, partial(wanted.wants_zones, flagged=True))
    zones = found if wanted.ids is None else (zone for zone in found if wanted.wants_ids_of(zone))
    for zone, block in view.blocks(zones):
        states = block.states if zone.expired and not is_replay else None
        kept = None if states is None else states != State.EXPIRED
        chosen = wanted.choose(zone, block, states=kept)
        if chosen is None or len(chosen):
            yield block_columns(block, shard, wanted.columns, chosen), zone.last + 1


def scan_time(view: ShardView, request: ReadRequest) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield ascending slices of primaries, each with the last primary it covers.

    Rows of a slice are sorted by (primary, secondary, address).
    """
    columns = filter_for(view, request).columns
    for last, rows in _slices(view, request, _SLICE_ZONES):
        yield _project(sort_rows(rows, ("primary", "secondary", "address")), columns), last


def scan_primary(view: ShardView, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Yield all rows sorted by (secondary, primary, address), at most `limit` an id."""
    parts: list[pa.RecordBatch] = []
    columns = filter_for(view, request).columns
    stops_early = request.limit > 0 and request.ids is not None
    counts = dict.fromkeys(request.ids or (), 0)
    for _, rows in _slices(view, request, _SLICE_ZONES if stops_early else 0):
        parts.append(rows)
        if stops_early:
            found, times = np.unique(rows.column("secondary").to_numpy(), return_counts=True)
            for secondary, count in zip(found.tolist(), times.tolist(), strict=True):
                counts[secondary] += count
            if min(counts.values()) >= request.limit:
                break
    if parts:
        rows = sort_rows(concat_batches(parts), _SORT_COLUMNS)
        yield _project(limit_rows(rows, request.limit), columns)


def _slices(
    view: ShardView, request: ReadRequest, zones_per_slice: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (last primary of the slice, its rows unsorted), slices ascending and disjoint."""
    wanted = filter_for(view, request)
    if wanted.start > wanted.end or wanted.address_start >= wanted.address_end:
        return
    view.refuse_lost(wanted.address_start, wanted.address_end)
    sorting = tuple(dict.fromkeys((*wanted.columns, *_SORT_COLUMNS)))
    wanted = replace(wanted, columns=sorting)
    if not zones_per_slice:
        rows = _rows_of(view, wanted, _normal_zones(view, wanted))
        if rows is not None:
            yield wanted.end, rows
        return
    first = wanted.start
    for stretch in _stretches(view, wanted):
        last = min(view.scheme.last_of(stretch.last), wanted.end)
        heads = ZoneHeads(_normal_zones(view, replace(wanted, start=first, end=last), stretch))
        for upto in heads.cuts(last, zones_per_slice):
            part = replace(wanted, start=first, end=upto)
            rows = _rows_of(view, part, heads.zones(first, upto))
            if rows is not None:
                yield upto, rows
            first = upto + 1
    if first <= wanted.end:
        rows = _rows_of(view, replace(wanted, start=first), iter(()))
        if rows is not None:
            yield wanted.end, rows


def _stretches(view: ShardView, wanted: RowFilter) -> list[Stretch]:
    scheme = view.scheme
    return stretches(view.windows(scheme.of(wanted.start), scheme.of(wanted.end)))


def _normal_zones(
    view: ShardView, wanted: RowFilter, stretch: Stretch | None = None
) -> Iterator[Zone]:
    """Yield the zones that can hold wanted normal rows: those of a stretch, or of all."""
    touched = _stretches(view, wanted) if stretch is None else [stretch]
    begin = max(min((one.start for one in touched), default=0), wanted.address_start)
    end = min(max((one.end for one in touched), default=0), wanted.address_end)
    begin = max(begin, view.bounds.start)
    if begin >= end:
        return
    for zone in view.zones(begin, end, partial(wanted.wants_zones, flagged=False)):
        if wanted.wants_ids_of(zone) and zone.may_hold_normal(wanted.start, wanted.end):
            yield zone


def _rows_of(view: ShardView, wanted: RowFilter, zones: Iterator[Zone]) -> pa.RecordBatch | None:
    """Return wanted rows: normal ones of these zones, late and ahead ones from their copies."""
    batches = [*_normal_rows(view, wanted, zones), *_flagged_rows(view, wanted)]
    return concat_batches(batches) if batches else None


def _normal_rows(
    view: ShardView, wanted: RowFilter, zones: Iterator[Zone]
) -> Iterator[pa.RecordBatch]:
    for zone, block in view.blocks(zones):
        states = block.states
        chosen = wanted.choose(zone, block, states=None if states is None else states == 0)
        if chosen is None or len(chosen):
            yield block_columns(block, view.shard, wanted.columns, chosen)


def _flagged_rows(view: ShardView, wanted: RowFilter) -> Iterator[pa.RecordBatch]:
    window = view.late_window_at_or_after(view.scheme.of(wanted.start))
    last = view.scheme.of(wanted.end)
    while window is not None and window <= last:
        keys: list[bytes] = []
        values: list[bytes] = []
        for first_key, end_key in _late_ranges(window, wanted):
            for key, value in view.late_items(window, first_key, end_key):
                keys.append(key)
                values.append(value)
        if keys:
            late = decode_late_rows(keys, values)
            chosen = _choose_late(late, wanted)
            if len(chosen):
                yield late_columns(late, view.shard, wanted.columns, chosen)
        window = view.late_window_at_or_after(window + 1)


def _late_ranges(window: int, wanted: RowFilter) -> Iterator[tuple[bytes, bytes]]:
    if wanted.ids is None or len(wanted.ids) > _SEEK_IDS_MAX:
        yield late_window_key(window), late_window_key(window) + b"\xff" * 21
        return
    for secondary in wanted.ids.tolist():
        first = late_key(window, secondary, wanted.start, 0)
        yield first, late_key(window, secondary, wanted.end, INT64_MAX) + b"\x00"


def _choose_late(late: LateRows, wanted: RowFilter) -> Positions:
    mask = (late.primary >= wanted.start) & (late.primary <= wanted.end)
    mask &= (late.address >= wanted.address_start) & (late.address < wanted.address_end)
    if wanted.ids is not None:
        mask &= _is_among(late.secondary, wanted.ids)
    if wanted.versions is not None:
        mask &= np.isin(late.head["version"], wanted.versions)
    return np.flatnonzero(mask)


def sort_rows(rows: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    """Return rows sorted by these integer columns, the first the most significant."""
    columns = [rows.column(name).to_numpy() for name in keys]
    if rows.num_rows < 2 or _is_sorted(columns):  # noqa: PLR2004 - one row is sorted
        return rows
    return rows.take(int_array(np.lexsort(columns[::-1])))


def limit_rows(rows: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """Return at most `limit` rows an id (0: all) of rows sorted by id."""
    if limit == 0 or rows.num_rows <= limit:
        return rows
    ids = rows.column("secondary").to_numpy()
    begins = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    sizes = np.diff(np.append(begins, len(ids)))
    rank = np.arange(len(ids)) - np.repeat(begins, sizes)
    return rows.filter(pa.array(rank < limit))


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as one.

    Raises:
        InvalidRequestError: They hold more bytes than one Arrow batch can.
    """
    if len(batches) == 1:
        return batches[0]
    try:
        return concat(batches)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        message = f"the rows do not fit one Arrow batch; read less at once or scan: {error}"
        raise InvalidRequestError(message) from error


def _project(rows: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    return rows if tuple(rows.schema.names) == columns else rows.select(list(columns))


def empty_rows(columns: tuple[str, ...]) -> pa.Table:
    """Return a table of these columns without rows."""
    return read_schema(columns).empty_table()


def _is_sorted(columns: Sequence[npt.NDArray[np.int64]]) -> bool:
    """Tell whether rows ascend by these columns, in one pass over each."""
    undecided = np.ones(len(columns[0]) - 1, dtype=np.bool_)
    for column in columns:
        before, after = column[:-1], column[1:]
        if (undecided & (after < before)).any():
            return False
        undecided &= after == before
        if not undecided.any():
            return True
    return True


def _is_among(values: Int32s, ids: Int32s) -> Mask:
    if len(ids) == 1:
        single: Mask = values == ids[0]
        return single
    return np.isin(values, ids)


def _both(left: Mask | None, right: Mask) -> Mask:
    return right if left is None else left & right
