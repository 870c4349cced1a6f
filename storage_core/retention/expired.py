"""What of a shard has expired at a floor, and what a cap takes: found in one view.

Whole windows go, with all that is kept by window: summaries, late and ahead rows, index entries.
Blocks are not kept by window: the log is cut below the least address that a window which stays
has, and behind it a block goes once none of its rows stays. What then is written, removal.py knows.

What is found follows the windows and blocks that go, not their rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import islice, pairwise

import numpy as np

from storage_core.engine.key_value import KeyRange
from storage_core.format.block import Block
from storage_core.format.keys import (
    INT64_MAX,
    INT64_MIN,
    PREFIX_INDEX,
    PREFIX_SEGMENT,
    PREFIX_ZONE,
    ahead_key,
    ahead_key_of,
    decode_segment_key,
    decode_window_key,
    encode_late_keys,
    index_window_key,
    late_window_key,
    prefix_end,
    window_key,
    zone_key,
)
from storage_core.format.record import State
from storage_core.format.shard_state import (
    AddressRange,
    decode_segment,
)
from storage_core.format.window import Window
from storage_core.format.zone import Zone, ZoneChunk, decode_zone
from storage_core.read.ahead_places import ahead_between, ids_with_ahead_below
from storage_core.read.snapshot import ShardSnapshot, ZoneMask
from storage_core.retention.removal import DeadRun, Removal, Segment


def has_expired(view: ShardSnapshot, window: int, *, is_floor_written: bool) -> bool:
    """Tell by one seek whether a window before this one is there, or this one under a new floor.

    Ahead rows are in no window; of a shard that has had any, another seek asks for them.
    """
    first = _first_window(view)
    if view.state.tail.counters.ahead:
        out_of_order = view.late_window_at_or_after(view.scheme.of(INT64_MIN))
        if out_of_order is not None:
            first = out_of_order if first is None else min(first, out_of_order)
    if first is None:
        return False
    return first < window or (first == window and not is_floor_written)


def find_removal(view: ShardSnapshot, floor: int, cut: int, rows: int) -> Removal:
    """Find what goes at a floor and, whatever its primary, below an address.

    Args:
        view: The moment.
        floor: The primary below which all goes.
        cut: The address below which all goes.
        rows: How many rows the cut takes.
    """
    window = view.scheme.of(floor)
    begin = view.scheme.first_of(window)
    least = view.scheme.of(INT64_MIN)
    windows = [stored for _, stored in view.windows(least, window - 1)] if least < window else []
    start = _start_at(view, window)
    if cut > view.state.cut:
        start = max(start, _begin_of_block(view, cut))
    spans: list[AddressRange] = []
    late_rows = 0
    for expired in windows:
        if expired.address_last >= cut or expired.late_records:
            rows, late_rows = rows + expired.records, late_rows + expired.late_records
        if max(expired.address_min, start) <= expired.address_last:
            end = min(expired.address_last + 1, view.committed)
            spans.append(AddressRange(max(expired.address_min, start), end))
    runs = tuple(_dead_runs(view, spans, begin))
    gone = list(view.zones(view.state.start, start)) if start > view.state.start else []
    return Removal(
        floor,
        start,
        len(windows),
        rows,
        late_rows,
        len(gone) + sum(run.blocks for run in runs),
        sum(zone.block_bytes for zone in gone) + sum(run.bytes for run in runs),
        tuple(_ranges_before(view, window, begin)),
        runs,
        *dead_segments(view, max(start, view.state.trimmed), runs),
        view.state.start,
        cut,
        tuple(_deletes_below(view, gone, start, cut)),
        tuple(_windows_below(view, window, start, cut)),
    )


def _first_window(view: ShardSnapshot) -> int | None:
    least = window_key(view.scheme.of(INT64_MIN))
    item = view.item_at_or_after(least)
    if item is None or item[0][:1] != least[:1]:
        return None
    return decode_window_key(item[0])


def _start_at(view: ShardSnapshot, window: int) -> int:
    """Return where the log begins once the windows before this one are gone."""
    begin = view.scheme.first_of(window)
    live = view.windows(window, view.scheme.of(INT64_MAX))
    least = min((one.address_min for _, one in live), default=INT64_MAX)
    # IMPORTANT: what goes is committed.
    start = _begin_of_block(view, min(least, view.committed))
    if view.state.cut > view.state.born:
        # A cap may have taken the head that a late row is behind, and its window with it.
        zones = view.zones(view.state.start, start, _with_late_rows)
        staying = (zone for zone in zones if not _is_dead(view, zone, begin))
        start = min((_begin_of(view, zone) for zone in islice(staying, 1)), default=start)
    return _before_ahead_rows(view, start, begin) if view.state.tail.counters.ahead else start


def _before_ahead_rows(view: ShardSnapshot, start: int, begin: int) -> int:
    """Return where the log begins if ahead rows stay that came behind all that goes.

    They hold back nothing that came behind them. Where nothing did, nobody gains by their end, and
    who follows the log may not have come to them yet.
    """
    for zone in view.zones_back(view.state.start, start):
        if zone.end != start or zone.ahead < zone.count or zone.out_of_order_max < begin:
            break
        start = _begin_of(view, zone)
    return start


def _with_late_rows(chunk: ZoneChunk) -> ZoneMask:
    late: ZoneMask = chunk.fields["late"] > 0
    return late


def _begin_of_block(view: ShardSnapshot, address: int) -> int:
    """Return where the log begins if all goes below an address; a block goes whole or stays."""
    item = view.item_at_or_before(zone_key(address)) if address > view.state.start else None
    if item is None or item[0][:1] != PREFIX_ZONE:
        return view.state.start
    zone = _decoded(view, item)
    is_kept = zone.last >= address and not zone.is_expired
    return _begin_of(view, zone) if is_kept else max(view.state.start, zone.end)


def _begin_of(view: ShardSnapshot, zone: Zone) -> int:
    """Return where the log begins if all goes before a block: what lies between is of none."""
    return max(view.state.start, zone.previous_end)


def _windows_below(
    view: ShardSnapshot, window: int, start: int, cut: int
) -> Iterator[tuple[int, Window]]:
    """Yield the windows from this one on that a cap leaves nothing of."""
    if cut > view.state.cut:
        for number, stored in view.windows(window, view.scheme.of(INT64_MAX)):
            if stored.address_last < start and not stored.late_records:
                yield number, stored


def _deletes_below(
    view: ShardSnapshot, gone: list[Zone], start: int, cut: int
) -> Iterator[tuple[str, bytes]]:
    """Yield the keys that go with what a cap takes, of the windows that stay.

    Late and ahead rows below the cut in a block that stays are hidden, and go with it.
    """
    if cut <= view.state.cut:
        return
    for _, block in view.blocks(zone for zone in gone if zone.late and zone.end <= cut):
        states = block.states
        if states is None:
            # Of a wide zone not each piece has late rows.
            continue
        late = np.flatnonzero(states == State.LATE)
        primaries = block.primaries[late]
        windows = view.scheme.of_many(primaries)
        ids, addresses = block.secondaries[late], block.addresses[late]
        for key in encode_late_keys(windows, ids, primaries, addresses):
            yield "default", key
    if view.state.tail.counters.ahead:
        places = ahead_between(view, None, INT64_MIN, INT64_MAX)
        places = places.where(places.address < min(start, cut))
        windows = view.scheme.of_many(places.primary)
        for key in encode_late_keys(windows, places.ids, places.primary, places.address):
            yield "default", key
            yield "default", ahead_key_of(key)


def _ranges_before(view: ShardSnapshot, window: int, begin: int) -> Iterator[KeyRange]:
    """Yield the ranges of keys that go with the windows before one, of which there are any."""
    least = view.scheme.of(INT64_MIN)
    kinds = [
        (window_key(least), window_key(window)),
        (late_window_key(least), late_window_key(window)),
        (PREFIX_INDEX, index_window_key(window)),
    ]
    if view.state.tail.counters.ahead:
        kinds += [
            (ahead_key(secondary, INT64_MIN, 0), ahead_key(secondary, begin, 0))
            for secondary in ids_with_ahead_below(view, begin)
        ]
    for first, end in kinds:
        item = view.item_at_or_after(first)
        if item is not None and item[0] < end:
            yield "default", item[0], end


def _dead_runs(view: ShardSnapshot, spans: list[AddressRange], begin: int) -> Iterator[DeadRun]:
    """Yield the runs of neighbouring blocks in these spans of which no row stays."""
    reached = 0
    run: DeadRun | None = None
    # Rows ahead go from a replay with what came behind them, and where nothing did they stay.
    ahead: list[Zone] = []
    for span in _merged(spans):
        for zone in view.zones(max(span.start, reached), span.end, with_expired=True):
            if zone.first < reached:
                continue
            is_next = zone.previous_end == reached
            reached = zone.end
            is_dead = zone.is_expired or _is_dead(view, zone, begin)
            if not is_dead or not is_next:
                if run is not None:
                    yield from _grown(view, run)
                run = None
                ahead.clear()
            if is_dead:
                ahead.append(zone)
                if zone.is_expired or zone.ahead < zone.count:
                    run = reduce(_with_zone, ahead, run)
                    ahead.clear()
    if run is not None:
        yield from _grown(view, run)


def _with_zone(run: DeadRun | None, zone: Zone) -> DeadRun:
    blocks = 0 if zone.is_expired else 1
    if run is None:
        run = DeadRun(zone.previous_end, zone.first, zone.last, 0, 0, 0)
    return replace(
        run,
        last=zone.last,
        zones=run.zones + 1,
        blocks=run.blocks + blocks,
        bytes=run.bytes + zone.block_bytes,
    )


def _grown(view: ShardSnapshot, run: DeadRun) -> Iterator[DeadRun]:
    """Yield a run with the expired zones beside it, if any block of it goes."""
    if not run.blocks:
        return
    item = view.item_at_or_before(zone_key(run.first - 1)) if run.first > view.state.start else None
    if item is not None and item[0][:1] == PREFIX_ZONE:
        zone = _decoded(view, item)
        if zone.is_expired and zone.end == run.previous_end and zone.first >= view.state.start:
            run = replace(
                run, previous_end=zone.previous_end, first=zone.first, zones=run.zones + 1
            )
    item = view.item_at_or_after(zone_key(run.last + 1))
    if item is not None and item[0][:1] == PREFIX_ZONE:
        zone = _decoded(view, item)
        if zone.is_expired and zone.previous_end == run.last + 1:
            run = replace(run, last=zone.last, zones=run.zones + 1)
    yield run


def dead_segments(
    view: ShardSnapshot, start: int, runs: tuple[DeadRun, ...]
) -> tuple[tuple[Segment, ...], int]:
    """Return the segments whose blocks all go, and the first that is kept (0: as before).

    Args:
        view: The moment.
        start: The address below which no block is in a segment any more.
        runs: What goes behind it.
    """
    listed = [
        (decode_segment_key(key), *decode_segment(value))
        for key, value in view.meta_items(PREFIX_SEGMENT, prefix_end(PREFIX_SEGMENT))
    ]
    gone: list[Segment] = []
    first_live = 0
    for (number, first, was_gone), (_, end, _) in pairwise(listed):
        if not was_gone and _stays(view, max(first, start), end, runs):
            first_live = first_live or number
        elif not was_gone:
            gone.append((number, first))
    if listed and not first_live:
        # Writing goes on in the last one.
        first_live = listed[-1][0]
    # Segments that a lost store has left are not listed.
    is_begin = listed and first_live > listed[0][0] and start >= listed[0][1]
    return tuple(gone), first_live if is_begin else 0


def _stays(view: ShardSnapshot, start: int, end: int, runs: tuple[DeadRun, ...]) -> bool:
    """Tell whether a block that stays lies between two addresses."""
    if start >= end:
        return False
    if not runs and start >= view.state.expired_end:
        return True
    return any(
        not any(run.first <= zone.first <= run.last for run in runs)
        for zone in view.zones(start, end)
    )


def _is_dead(view: ShardSnapshot, zone: Zone, begin: int) -> bool:
    """Tell whether no row of a block stays; ahead ones stay without it."""
    if zone.end > view.committed or zone.primary_max >= begin:
        return False
    if zone.late == 0 or zone.out_of_order_max < begin:
        return True
    if zone.ahead == 0:
        return False
    return not any(_has_late_rows(block, begin) for _, block in view.pieces(zone))


def _has_late_rows(block: Block, begin: int) -> bool:
    states = block.states
    return states is not None and bool(((states == State.LATE) & (block.primaries >= begin)).any())


def _merged(spans: list[AddressRange]) -> Iterator[AddressRange]:
    ascending = sorted(span for span in spans if span.start < span.end)
    index = 0
    while index < len(ascending):
        start, end = ascending[index].start, ascending[index].end
        while index < len(ascending) and ascending[index].start <= end:
            end = max(end, ascending[index].end)
            index += 1
        yield AddressRange(start, end)


def _decoded(view: ShardSnapshot, item: tuple[bytes, bytes]) -> Zone:
    return decode_zone(int.from_bytes(item[0][1:], "big"), item[1], view.shard)
