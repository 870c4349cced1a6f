"""Cutting: rows made into blocks near their target, each put beside its zone."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from storage_core.catalog.options import StreamOptions
from storage_core.engine.key_value import Batch
from storage_core.format.block import BlockPlace, block_checksum, encode_block
from storage_core.format.keys import FAMILY_LOG, log_key, zone_key
from storage_core.format.record import Rows
from storage_core.format.zone import (
    Zone,
    encode_secondaries,
    encode_zone,
    primary_spans,
    state_counts,
)
from storage_core.ids.heads.grouping import Int64s, States
from storage_core.write.entry import JudgedEntry


def put_blocks(  # noqa: PLR0913 - a block's parts
    batch: Batch,
    judged: JudgedEntry,
    place: BlockPlace,
    *,
    previous_end: int,
    now_ms: int,
    options: StreamOptions,
) -> tuple[int, int]:
    """Add rows as blocks to a batch; return the end of the last one and how many they are."""
    rows, states, end = judged.rows, judged.states, previous_end
    if not len(rows):
        return end, 0
    cuts = cut_points(rows.sizes(), options.block_records, options.block_bytes)
    for first, last in pairwise(cuts):
        part = None if states is None else states[first:last]
        zone = put_block(
            batch,
            rows if last - first == len(rows) else rows.slice(first, last),
            part if part is not None and part.any() else None,
            judged.addresses[first:last],
            place,
            previous_end=end,
            now_ms=now_ms,
            options=options,
        )
        end = zone.end
    return end, len(cuts) - 1


def cut_points(sizes: npt.NDArray[np.integer[Any]], records_max: int, bytes_max: int) -> list[int]:
    """Return where rows of these sizes are cut: evenly, into few blocks near their targets.

    Filling block after block would leave a rest behind every batch, and a small block costs a
    read as much beside its rows as a large one. Rows so uneven, or so large, that an even cut makes
    a block of half as much again as its target in bytes are filled up after all.
    """
    count, size = len(sizes), int(sizes.sum())
    if count == 1 or (count <= records_max and size <= bytes_max):
        return [0, count]
    records_most, bytes_most = _with_slack(records_max), _with_slack(bytes_max)
    blocks = min(count, max(-(-count // records_most), -(-size // bytes_most)))
    cuts = [at * count // blocks for at in range(blocks + 1)]
    filled = np.cumsum(sizes, dtype=np.int64)
    ends = filled[np.array(cuts[1:]) - 1]
    if int(np.diff(ends, prepend=0).max()) <= bytes_max + bytes_max // 2:
        return cuts
    return _filled_cuts(filled, records_max, bytes_max)


def _with_slack(target: int) -> int:
    return target + target // 4


def _filled_cuts(filled: Int64s, records_max: int, bytes_max: int) -> list[int]:
    count = len(filled)
    cuts = [0]
    while cuts[-1] < count:
        begin = cuts[-1]
        before = int(filled[begin - 1]) if begin else 0
        full = int(np.searchsorted(filled, before + bytes_max))
        cuts.append(min(count, begin + records_max, max(begin, full) + 1))
    return cuts


def put_block(  # noqa: PLR0913 - a block's parts
    batch: Batch,
    rows: Rows,
    states: States | None,
    addresses: Int64s,
    place: BlockPlace,
    *,
    previous_end: int,
    now_ms: int,
    options: StreamOptions,
) -> Zone:
    """Add one block and its zone to a batch."""
    data = encode_block(rows, states, addresses, place, now_ms, options.codec)
    late, ahead, expired = state_counts(states)
    zone = Zone(
        previous_end,
        int(addresses[0]),
        int(addresses[-1]),
        *primary_spans(rows.primary, states),
        now_ms,
        block_checksum(data),
        len(data),
        len(rows),
        late,
        ahead,
        expired,
        rows.payload.null_count,
        encode_secondaries(rows.secondary),
    )
    batch.put(log_key(zone.first), data, FAMILY_LOG)
    batch.put(zone_key(zone.first), encode_zone(zone))
    return zone
