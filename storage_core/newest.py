"""The row with the largest primary of each id: by heads, and by ahead records above them.

A head knows its row's address, so the answer costs one block an id. Ahead records move no
head; only the windows from the head's own on can hold a larger one. Of equal primaries the
highest address wins.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from storage_core.columns import block_columns, late_columns
from storage_core.errors import CorruptionError
from storage_core.keys import INT64_MIN, decode_late_keys, late_window_key
from storage_core.late_rows import LateRows, decode_late_rows
from storage_core.read_request import ReadRequest
from storage_core.scan import RowFilter, concat_batches, filter_for, scan_primary, sort_rows
from storage_core.shard_view import ShardView
from storage_core.zone import Zone

_Place = tuple[int, int]


def scan_newest(view: ShardView, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Yield one batch, sorted by id: each id's row with the largest primary, where it has one."""
    asked = filter_for(view, request)
    columns = tuple(dict.fromkeys((*asked.columns, "secondary")))
    wanted = replace(asked, columns=columns)
    view.refuse_lost(wanted.address_start, wanted.address_end)
    heads = view.heads(wanted.ids)
    best: dict[int, _Place] = {
        secondary: (primary, address)
        for secondary, primary, address in zip(
            heads.ids.tolist(), heads.primary.tolist(), heads.address.tolist(), strict=True
        )
        if address >= 0 and primary >= wanted.start
    }
    headless = {
        secondary for secondary, (_, address) in best.items() if not _is_shown(view, address)
    }
    for secondary in headless:
        del best[secondary]
    ahead = _newest_flagged(view, wanted, best, headless)
    addresses = sorted(
        address for secondary, (_, address) in best.items() if secondary not in ahead
    )
    batches = [*_rows_at(view, wanted, addresses)]
    batches.extend(
        late_columns(late, view.shard, columns, np.array([0])) for late in ahead.values()
    )
    batches.extend(_last_rows(view, request, columns, headless))
    if batches:
        rows = sort_rows(concat_batches(batches), ("secondary",))
        yield rows.select(list(asked.columns))


def _last_rows(
    view: ShardView, request: ReadRequest, columns: tuple[str, ...], ids: set[int]
) -> Iterator[pa.RecordBatch]:
    """Yield the newest row of ids whose head's row is not in the view, late or ahead or not."""
    for secondary in ids:
        asked = replace(request, ids=(secondary,), order="primary", limit=0, columns=columns)
        for rows in scan_primary(view, asked):
            yield rows.slice(rows.num_rows - 1)


def _newest_flagged(
    view: ShardView, wanted: RowFilter, best: dict[int, _Place], headless: set[int]
) -> dict[int, LateRows]:
    """Return the late or ahead records that are newer than the ids' heads."""
    asked = None if wanted.ids is None else set(wanted.ids.tolist())
    ids = _ids_with_late_rows(view) | set(best) if asked is None else asked
    found = {}
    for secondary in ids - headless:
        late = _largest_flagged(view, secondary, best.get(secondary, (wanted.start, -1)))
        if late is not None:
            found[secondary] = late
    return found


def _is_shown(view: ShardView, address: int) -> bool:
    """Tell whether a head's row is in the view: committed there, and not given up."""
    is_given_up = any(gap.start <= address < gap.end for gap in view.bounds.gaps)
    return address < view.bounds.committed and not is_given_up


def _largest_flagged(view: ShardView, secondary: int, head: _Place) -> LateRows | None:
    lowest = view.scheme.of(head[0])
    window = view.late_window_before(None)
    while window is not None and window >= lowest:
        item = view.last_late_item(window, secondary)
        if item is not None:
            late = decode_late_rows([item[0]], [item[1]])
            place = (int(late.primary[0]), int(late.address[0]))
            return late if place > head else None
        window = view.late_window_before(window)
    return None


def _ids_with_late_rows(view: ShardView) -> set[int]:
    ids: set[int] = set()
    window = view.late_window_at_or_after(INT64_MIN)
    while window is not None:
        first = late_window_key(window)
        keys = [key for key, _ in view.late_items(window, first, first + b"\xff" * 21)]
        if keys:
            ids.update(np.unique(decode_late_keys(keys)[0]).tolist())
        window = view.late_window_at_or_after(window + 1)
    return ids


def _rows_at(view: ShardView, wanted: RowFilter, addresses: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows at ascending addresses, each block read once."""
    remaining = np.array(addresses, dtype=np.int64)
    while len(remaining):
        zone = _zone_of(view, int(remaining[0]))
        inside = remaining[remaining <= zone.last]
        remaining = remaining[remaining > zone.last]
        block = view.block(zone)
        chosen = np.flatnonzero(np.isin(block.addresses, inside))
        if len(chosen) != len(inside):
            message = "a head points at an address its block does not hold"
            raise CorruptionError(
                message, stream=view.stream, shard=view.shard, start=zone.first, end=zone.end
            )
        yield block_columns(block, view.shard, wanted.columns, chosen)


def _zone_of(view: ShardView, address: int) -> Zone:
    for zone in view.zones(address, address + 1):
        return zone
    message = "a head points at an address without a block"
    raise CorruptionError(
        message, stream=view.stream, shard=view.shard, start=address, end=address + 1
    )
