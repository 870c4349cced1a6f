"""What proves that a block is the one its zone speaks of: times, counts, ids and addresses.

Beside the checksum, which is of the bytes that the writer made: a rebuilt block has others. The
block may have the rows of several zones, each of which must agree with its own.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.block import Block
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State
from storage_core.format.zone import (
    Zone,
    decode_secondaries,
    encode_one_secondary,
    primary_spans,
    state_counts,
)
from storage_core.read.columns import Positions

_COUNTED: Final = ("rows", "late rows", "future-dated rows", "expired rows")


def disagreement(zones: Sequence[Zone], block: Block) -> str | None:
    """Say how a zone differs from the block that has the rows of all these, or return None."""
    if len(zones) == 1 and zones[0].is_wide:
        proof = WideProof(zones[0])
        return proof.difference_of(block) or proof.difference_of_all()
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


class WideProof:
    """Compares the rows of a wide zone with it, piece by piece."""

    def __init__(self, zone: Zone) -> None:
        """Begin before the first piece."""
        self._zone: Final = zone
        self._counts = np.zeros(4, np.int64)

    def difference_of(self, block: Block) -> str | None:
        """Say what of a piece cannot be of the zone."""
        zone, addresses = self._zone, block.addresses
        least, most, out_of_order_min, out_of_order_max = primary_spans(
            block.primaries, block.states
        )
        self._counts += (len(block), *state_counts(block.states))
        if least <= most and not zone.primary_min <= least <= most <= zone.primary_max:
            return "the zone's primaries differ from those of its parts"
        if out_of_order_min <= out_of_order_max and not (
            zone.out_of_order_min <= out_of_order_min and out_of_order_max <= zone.out_of_order_max
        ):
            return "the zone's primaries out of order differ from those of its parts"
        if int(block.committed_times.max()) > zone.committed_at_ms:
            return "the zone's time of storing differs from that of its parts"
        if not (addresses[1:] > addresses[:-1]).all():
            return "the addresses of its parts do not ascend"
        return None

    def difference_of_all(self) -> str | None:
        """Say how the zone differs from all its pieces together."""
        zone = self._zone
        expected = (zone.count, zone.late, zone.ahead, zone.expired)
        for name, most, count in zip(_COUNTED, expected, self._counts.tolist(), strict=True):
            if most != count:
                return f"the zone counts {most} {name}, its parts have {count}"
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
