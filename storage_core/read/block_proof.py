"""What proves that a block is the one its zone speaks of: times, counts, ids and addresses.

Beside the checksum, which is of the bytes that the writer made: a rebuilt block has others. The
block may have the rows of several zones, each of which must agree with its own.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from storage_core.format.block import Block
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State
from storage_core.format.zone import Zone, decode_secondaries, encode_one_secondary
from storage_core.read.columns import Positions


def disagreement(zones: Sequence[Zone], block: Block) -> str | None:
    """Say how a zone differs from the block that has the rows of all these, or return None."""
    counts = np.array([zone.count for zone in zones])
    if int(counts.sum()) != len(block):
        return "the zone's rows are not as many as the block's"
    begins = np.cumsum(counts) - counts
    for difference, agree in (
        ("primaries differ", _agree_on_primaries),
        ("counts differ", _agree_on_counts),
        ("time of storing differs", _agree_on_times),
        ("set of secondaries differs", _agree_on_ids),
    ):
        if not agree(zones, block, begins):
            return f"the zone's {difference} from the block's"
    addresses = block.addresses
    is_framed = (addresses[begins] == [zone.first for zone in zones]).all()
    is_framed &= (addresses[begins + counts - 1] == [zone.last for zone in zones]).all()
    if not is_framed or not (addresses[1:] > addresses[:-1]).all():
        return "the block's addresses differ from its header, or do not ascend"
    return None


def _agree_on_primaries(zones: Sequence[Zone], block: Block, begins: Positions) -> bool:
    states, primaries = _states(block), block.primaries
    out_of_order = (states == State.LATE) | (states == State.AHEAD)
    for rows, least, most in (
        (states == State.NORMAL, "primary_min", "primary_max"),
        (out_of_order, "out_of_order_min", "out_of_order_max"),
    ):
        lows = np.minimum.reduceat(np.where(rows, primaries, INT64_MAX), begins)
        highs = np.maximum.reduceat(np.where(rows, primaries, INT64_MIN), begins)
        if (lows != _of_zones(zones, least)).any() or (highs != _of_zones(zones, most)).any():
            return False
    return True


def _agree_on_counts(zones: Sequence[Zone], block: Block, begins: Positions) -> bool:
    states = _states(block)
    nulls = block.batch.column("payload").is_null().to_numpy(zero_copy_only=False)
    return all(
        (np.add.reduceat(rows.astype(np.int64), begins) == _of_zones(zones, name)).all()
        for rows, name in (
            (states == State.LATE, "late"),
            (states == State.AHEAD, "ahead"),
            (states == State.EXPIRED, "expired"),
            (nulls, "tombstones"),
        )
    )


def _agree_on_times(zones: Sequence[Zone], block: Block, begins: Positions) -> bool:
    times, last = block.committed_times, _of_zones(zones, "committed_at_ms")
    # The rows of a joined zone were committed at several times.
    is_first = np.minimum.reduceat(times, begins) == last
    is_first |= [zone.is_joined for zone in zones]
    return bool((is_first & (np.maximum.reduceat(times, begins) == last)).all())


def _agree_on_ids(zones: Sequence[Zone], block: Block, begins: Positions) -> bool:
    secondaries = block.secondaries
    for zone, begin in zip(zones, begins.tolist(), strict=True):
        if zone.count == 1 and zone.sections == encode_one_secondary(int(secondaries[begin])):
            continue
        ids = decode_secondaries(zone.sections)
        if ids is None:
            continue
        # NOTE: numpy's own `unique` hashes first, which takes eighty times as long (2.3).
        ordered = np.sort(secondaries[begin : begin + zone.count])
        distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]
        if not np.array_equal(ids, distinct):
            return False
    return True


def _states(block: Block) -> npt.NDArray[np.uint8]:
    return np.zeros(len(block), np.uint8) if block.states is None else block.states


def _of_zones(zones: Sequence[Zone], name: str) -> Positions:
    return np.array([getattr(zone, name) for zone in zones], np.int64)
