"""What proves that a block is the one its zone speaks of: times, counts, ids and addresses."""

import numpy as np

from storage_core.format.block import Block
from storage_core.format.zone import (
    Int32s,
    Zone,
    decode_secondaries,
    primary_spans,
    state_counts,
)


def disagreement(zone: Zone, block: Block) -> str | None:
    """Say how a zone differs from its block, or return None.

    Beside the checksum, which is of the bytes that the writer made: a block made again has others.
    """
    states, addresses = block.states, block.addresses
    spans = (zone.primary_min, zone.primary_max, zone.flagged_min, zone.flagged_max)
    if spans != primary_spans(block.primaries, states):
        return "the zone's primaries differ from the block's"
    tombstones = block.batch.column("payload").null_count
    counts = (zone.late, zone.ahead, zone.expired, zone.tombstones)
    if counts != (*state_counts(states), tombstones):
        return "the zone's counts differ from the block's"
    if zone.committed_at_ms != block.committed_at_ms:
        return "the zone's time of storing differs from the block's"
    ids = decode_secondaries(zone.sections)
    if ids is not None and not np.array_equal(ids, _distinct(block.secondaries)):
        return "the zone's set of secondaries differs from the block's"
    is_framed = int(addresses[0]) == block.first and int(addresses[-1]) == block.last
    if not is_framed or not (addresses[1:] > addresses[:-1]).all():
        return "the block's addresses differ from its header, or do not ascend"
    return None


def _distinct(secondaries: Int32s) -> Int32s:
    # NOTE: numpy's own `unique` hashes first, which takes eighty times as long (2.3).
    ordered = np.sort(secondaries)
    found: Int32s = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found
