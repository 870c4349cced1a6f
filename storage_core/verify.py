"""Verify: read every block, zone and late row of a shard and tell what is wrong.

Each problem becomes a line that names shard, file and addresses. It goes on behind a block that
cannot be read; behind a broken chain of zones it cannot.
Late records and the rows flagged in blocks must be the same, in number and by a sum over
their places.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from storage_core.block import Block
from storage_core.errors import CorruptionError
from storage_core.keys import INT64_MIN, decode_late_keys, late_window_key
from storage_core.record import STATE_AHEAD, STATE_LATE
from storage_core.shard_view import ShardView
from storage_core.zone import Zone, primary_spans, state_counts

if TYPE_CHECKING:
    from storage_core.shard import Shard

_SUM_MASK: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    shard: int
    file: str
    start: int | None
    end: int | None
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was read, and what is wrong with it."""

    blocks: int = 0
    rows: int = 0
    late_rows: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.problems

    def plus(self, other: "VerifyReport") -> "VerifyReport":
        """Return both reports as one."""
        return VerifyReport(
            self.blocks + other.blocks,
            self.rows + other.rows,
            self.late_rows + other.late_rows,
            self.problems + other.problems,
        )


def verify_shard(shard: "Shard") -> VerifyReport:
    """Verify one shard that is open for writing; blocks that cannot be read become lost."""
    view = shard.view()
    file = str(shard.context.directory / "db")
    problems: list[Problem] = [
        Problem(view.shard, file, lost.start, lost.end, "acknowledged addresses are gone")
        for lost in view.bounds.lost
    ]
    try:
        blocks, rows, flagged, flagged_sum = _verify_blocks(shard, view, file, problems)
        late, late_sum = _verify_late(view, file, problems)
    finally:
        view.close()
    if not problems and (flagged, flagged_sum) != (late, late_sum):
        what = f"blocks hold {flagged} late rows, their ordered copy {late}"
        problems.append(Problem(view.shard, file, None, None, what))
    return VerifyReport(blocks, rows, late, tuple(problems))


def _verify_blocks(
    shard: "Shard", view: ShardView, file: str, problems: list[Problem]
) -> tuple[int, int, int, int]:
    blocks = rows = flagged = flagged_sum = 0
    try:
        for zone in view.zones(view.bounds.start, view.bounds.committed):
            if any(lost.overlaps(zone.first, zone.end) for lost in view.bounds.lost):
                continue
            try:
                block = view.block(zone)
            except CorruptionError as error:
                shard.note_lost(view.unreadable)
                problems.append(Problem(view.shard, file, zone.first, zone.end, str(error)))
                continue
            blocks += 1
            rows += len(block)
            what = _disagreement(zone, block)
            if what is not None:
                problems.append(Problem(view.shard, file, zone.first, zone.end, what))
            states = block.states
            if states is not None:
                chosen = (states == STATE_LATE) | (states == STATE_AHEAD)
                flagged += int(np.count_nonzero(chosen))
                flagged_sum += _place_sum(block.addresses[chosen], block.primaries[chosen])
    except CorruptionError as error:
        problems.append(Problem(view.shard, file, error.start, error.end, str(error)))
    return blocks, rows, flagged, flagged_sum & _SUM_MASK


def _verify_late(view: ShardView, file: str, problems: list[Problem]) -> tuple[int, int]:
    late = late_sum = 0
    try:
        window = view.late_window_at_or_after(INT64_MIN)
        while window is not None:
            first = late_window_key(window)
            keys = [key for key, _ in view.late_items(window, first, first + b"\xff" * 21)]
            if keys:
                _, primaries, addresses = decode_late_keys(keys)
                late += len(keys)
                late_sum += _place_sum(addresses, primaries)
            window = view.late_window_at_or_after(window + 1)
    except CorruptionError as error:
        problems.append(Problem(view.shard, file, error.start, error.end, str(error)))
    return late, late_sum & _SUM_MASK


def _disagreement(zone: Zone, block: Block) -> str | None:
    """Say how a zone differs from its block, or None."""
    states = block.states
    spans = (zone.primary_min, zone.primary_max, zone.flagged_min, zone.flagged_max)
    if spans != primary_spans(block.primaries, states):
        return "the zone's primaries differ from the block's"
    if (zone.late, zone.ahead, zone.expired) != state_counts(states):
        return "the zone's counts differ from the block's"
    if not zone.may_hold_ids(block.secondaries[:1]):
        return "the zone's set of secondaries lacks one of the block's"
    addresses = block.addresses
    if int(addresses[0]) != block.first or int(addresses[-1]) != block.last:
        return "the block's addresses differ from its header"
    if not (addresses[1:] > addresses[:-1]).all():
        return "the block's addresses do not ascend"
    return None


def _place_sum(
    addresses: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    primaries: "np.ndarray[tuple[int], np.dtype[np.int64]]",
) -> int:
    mixed = addresses.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return int((mixed ^ primaries.astype(np.uint64)).sum(dtype=np.uint64))
