"""What proves that a block is the one its zone speaks of: times, counts, ids and addresses."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from storage_core.format.block import Block
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State
from storage_core.format.zone import (
    Int32s,
    Int64s,
    Zone,
    decode_secondaries,
    encode_one_secondary,
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
    ids: Int32s = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return ids


def all_agree(zones: Sequence[Zone], block: Block) -> bool:
    """Tell whether zones agree, each by itself, with the block that has the rows of all."""
    counts = np.array([zone.count for zone in zones])
    begins = np.cumsum(counts) - counts
    if int(counts.sum()) != len(block):
        return False
    return (
        _agree_on_primaries(zones, block, begins)
        and _agree_on_counts(zones, block, begins)
        and _agree_on_places(zones, block, begins, counts)
        and _agree_on_ids(zones, block, begins, counts)
    )


def _agree_on_primaries(zones: Sequence[Zone], block: Block, begins: Int64s) -> bool:
    states, primaries = _states(block), block.primaries
    normal = states == State.NORMAL
    flagged = (states == State.LATE) | (states == State.AHEAD)
    for rows, least, most in (
        (normal, [zone.primary_min for zone in zones], [zone.primary_max for zone in zones]),
        (flagged, [zone.flagged_min for zone in zones], [zone.flagged_max for zone in zones]),
    ):
        lows = np.minimum.reduceat(np.where(rows, primaries, INT64_MAX), begins)
        highs = np.maximum.reduceat(np.where(rows, primaries, INT64_MIN), begins)
        if (lows != least).any() or (highs != most).any():
            return False
    return True


def _agree_on_counts(zones: Sequence[Zone], block: Block, begins: Int64s) -> bool:
    states = _states(block)
    nulls = block.batch.column("payload").is_null().to_numpy(zero_copy_only=False)
    for rows, counts in (
        (states == State.LATE, [zone.late for zone in zones]),
        (states == State.AHEAD, [zone.ahead for zone in zones]),
        (states == State.EXPIRED, [zone.expired for zone in zones]),
        (nulls, [zone.tombstones for zone in zones]),
    ):
        if (np.add.reduceat(rows.astype(np.int64), begins) != counts).any():
            return False
    return True


def _agree_on_places(zones: Sequence[Zone], block: Block, begins: Int64s, counts: Int64s) -> bool:
    addresses, times = block.addresses, block.committed_times
    zone_times = np.repeat([zone.committed_at_ms for zone in zones], counts)
    return bool(
        (times == zone_times).all()
        and (addresses[begins] == [zone.first for zone in zones]).all()
        and (addresses[begins + counts - 1] == [zone.last for zone in zones]).all()
        and (addresses[1:] > addresses[:-1]).all()
    )


def _agree_on_ids(zones: Sequence[Zone], block: Block, begins: Int64s, counts: Int64s) -> bool:
    secondaries = block.secondaries
    firsts = secondaries[begins].tolist()
    for zone, begin, count, first in zip(
        zones, begins.tolist(), counts.tolist(), firsts, strict=True
    ):
        if count == 1 and zone.sections == encode_one_secondary(first):
            continue
        ids = decode_secondaries(zone.sections)
        if ids is not None and not np.array_equal(
            ids, _distinct(secondaries[begin : begin + count])
        ):
            return False
    return True


def _states(block: Block) -> npt.NDArray[np.uint8]:
    states = block.states
    return np.zeros(len(block), dtype=np.uint8) if states is None else states
