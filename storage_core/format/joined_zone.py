"""One zone for several neighbouring blocks that were trimmed.

Commits of one record leave a block and a zone each. Once parts have the rows, and the blocks are
gone, nothing needs the zones one by one: one that spans as many rows as a full block says the same.
It has the addresses of all, their spans, counts and ids; its `committed_at_ms` is the largest of
them (parts know the time of each row), its `block_bytes` the sum, its `checksum` 0, since the block
never was.

Only blocks that expire together are joined: expiry takes a block once the last window of its rows
is over, so that this is the same for all. Those with rows ahead of the clock, or with nothing but
rows that were expired as they came, go by other rules and stay alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from storage_core.format.window import WindowScheme
from storage_core.format.zone import Zone, decode_secondaries, encode_secondaries

# What a block takes beside its rows, about: its header, and what Arrow says of its columns.
_FRAME_BYTES: Final = 384


def groups(
    zones: Iterable[Zone], scheme: WindowScheme, rows_max: int, bytes_max: int
) -> Iterator[list[Zone]]:
    """Yield zones in groups of those that may become one, in order; many are alone.

    Args:
        zones: Of trimmed blocks, by address.
        scheme: How primaries fall into windows.
        rows_max: The most rows of a group of several.
        bytes_max: The most bytes of its rows.
    """
    group: list[Zone] = []
    window: int | None = None
    rows = size = 0
    for zone in zones:
        zone_window, zone_bytes = _last_window(zone, scheme), _row_bytes(zone)
        fits = rows + zone.count <= rows_max and size + zone_bytes <= bytes_max
        is_next = bool(group) and group[-1].end == zone.previous_end
        if group and not (is_next and fits and window is not None and window == zone_window):
            yield group
            group, rows, size = [], 0, 0
        group.append(zone)
        window = zone_window
        rows, size = rows + zone.count, size + zone_bytes
    if group:
        yield group


def joined(zones: Sequence[Zone]) -> Zone:
    """Return one zone for neighbours, which counts what they count together."""
    return replace(spanning(zones), sections=_ids_of(zones))


def spanning(zones: Sequence[Zone]) -> Zone:
    """Return a zone of what several span and count together, without their ids."""
    first, last = zones[0], zones[-1]
    return Zone(
        previous_end=first.previous_end,
        first=first.first,
        last=last.last,
        primary_min=min(zone.primary_min for zone in zones),
        primary_max=max(zone.primary_max for zone in zones),
        out_of_order_min=min(zone.out_of_order_min for zone in zones),
        out_of_order_max=max(zone.out_of_order_max for zone in zones),
        committed_at_ms=max(zone.committed_at_ms for zone in zones),
        checksum=0,
        block_bytes=sum(zone.block_bytes for zone in zones),
        count=sum(zone.count for zone in zones),
        late=sum(zone.late for zone in zones),
        ahead=sum(zone.ahead for zone in zones),
        expired=sum(zone.expired for zone in zones),
        tombstones=sum(zone.tombstones for zone in zones),
        sections=b"",
    )


def _last_window(zone: Zone, scheme: WindowScheme) -> int | None:
    """Return the window with which a block expires; None if other rules say when."""
    if zone.ahead or zone.expired == zone.count:
        return None
    return scheme.of(max(zone.primary_max, zone.out_of_order_max))


def _row_bytes(zone: Zone) -> int:
    return max(0, zone.block_bytes - _FRAME_BYTES)


def _ids_of(zones: Sequence[Zone]) -> bytes:
    """Return the section with the ids of all; nothing, which may be any, if one does not say."""
    secondaries = [decode_secondaries(zone.sections) for zone in zones]
    recorded = [ids for ids in secondaries if ids is not None]
    if len(recorded) < len(secondaries):
        return b""
    return encode_secondaries(np.concatenate(recorded).astype(np.int32))
