"""Verify: read every block, zone and late row of a shard and tell what is wrong.

Each problem becomes a line that names shard, file and addresses. It goes on behind a block that
cannot be read; behind a broken chain of zones it cannot.
Late records and the rows flagged in blocks must be the same, in number and by a sum over
their places; windows must cover their rows, and heads must not be behind them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from storage_core.block import Block
from storage_core.errors import CorruptionError
from storage_core.head_replay import block_groups, replay_block
from storage_core.heads import HeadTable
from storage_core.keys import INT64_MAX, INT64_MIN, decode_late_keys, late_window_key
from storage_core.record import STATE_AHEAD, STATE_LATE
from storage_core.shard_view import ShardView
from storage_core.windows import Window, summarise
from storage_core.zone import Zone, decode_secondaries, primary_spans, state_counts

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
    view = shard.view_with_heads(None)
    try:
        check = _ShardCheck(view, str(shard.context.directory / "db"))
        check.blocks()
        check.late_rows()
        check.summaries()
    finally:
        view.close()
    shard.note_lost(view.unreadable)
    return check.report()


class _ShardCheck:
    """One pass over a view, with what is needed to compare its parts."""

    def __init__(self, view: ShardView, file: str) -> None:
        self._view = view
        self._file = file
        self._problems: list[Problem] = []
        self._blocks = self._rows = self._flagged = self._late = 0
        self._flagged_sum = self._late_sum = 0
        self._windows: dict[int, Window] = {}
        self._heads = HeadTable()
        for lost in view.bounds.lost:
            self._tell(lost.start, lost.end, "acknowledged addresses are gone")

    def blocks(self) -> None:
        """Read every block against its zone."""
        view = self._view
        try:
            for zone in view.zones(view.bounds.start, view.bounds.committed):
                if any(lost.overlaps(zone.first, zone.end) for lost in view.bounds.lost):
                    continue
                try:
                    block = view.block(zone)
                except CorruptionError as error:
                    self._tell(zone.first, zone.end, error.message)
                    continue
                self._blocks += 1
                self._rows += len(block)
                what = _disagreement(zone, block)
                if what is not None:
                    self._tell(zone.first, zone.end, what)
                self._remember(block)
        except CorruptionError as error:
            self._tell(error.start, error.end, error.message)

    def late_rows(self) -> None:
        """Read every late row's copy."""
        view = self._view
        try:
            window = view.late_window_at_or_after(INT64_MIN)
            while window is not None:
                first = late_window_key(window)
                keys = [key for key, _ in view.late_items(window, first, first + b"\xff" * 21)]
                if keys:
                    _, primaries, addresses = decode_late_keys(keys)
                    self._late += len(keys)
                    self._late_sum += _place_sum(addresses, primaries)
                window = view.late_window_at_or_after(window + 1)
        except CorruptionError as error:
            self._tell(error.start, error.end, error.message)

    def summaries(self) -> None:
        """Compare late copies, windows and heads with what the blocks hold."""
        if self._problems:
            return
        if (self._flagged, self._flagged_sum & _SUM_MASK) != (
            self._late,
            self._late_sum & _SUM_MASK,
        ):
            what = f"blocks hold {self._flagged} late rows, their ordered copy {self._late}"
            self._tell(None, None, what)
        stored = dict(self._view.windows(INT64_MIN, INT64_MAX))
        for number, window in self._windows.items():
            known = stored.get(number, Window())
            if known.address_min > window.address_min or known.address_last < window.address_last:
                self._tell(
                    window.address_min,
                    window.address_last + 1,
                    f"window {number} does not cover its rows",
                )
        self._check_heads()

    def report(self) -> VerifyReport:
        """Return what was read and what is wrong."""
        return VerifyReport(self._blocks, self._rows, self._late, tuple(self._problems))

    def _check_heads(self) -> None:
        expected = self._heads.heads
        heads = self._view.heads(expected.ids)
        behind = (heads.primary < expected.primary) | (heads.last < expected.last)
        for at in np.flatnonzero(behind).tolist():
            start = int(expected.address[at])
            self._tell(start, start + 1, f"the head of id {int(expected.ids[at])} is behind")

    def _remember(self, block: Block) -> None:
        states, primaries, addresses = block.states, block.primaries, block.addresses
        groups = block_groups(block)
        before, _ = self._heads.find(groups.ids)
        self._heads.put(replay_block(block, groups, before))
        sizes = np.zeros(len(block), dtype=np.int32)
        scheme = self._view.scheme
        for number, window in summarise(scheme, primaries, addresses, sizes, states).items():
            self._windows[number] = self._windows.get(number, Window()).widened(window)
        if states is not None:
            chosen = (states == STATE_LATE) | (states == STATE_AHEAD)
            self._flagged += int(np.count_nonzero(chosen))
            self._flagged_sum += _place_sum(addresses[chosen], primaries[chosen])

    def _tell(self, start: int | None, end: int | None, what: str) -> None:
        self._problems.append(Problem(self._view.shard, self._file, start, end, what))


def _disagreement(zone: Zone, block: Block) -> str | None:
    """Say how a zone differs from its block, or None."""
    states = block.states
    spans = (zone.primary_min, zone.primary_max, zone.flagged_min, zone.flagged_max)
    if spans != primary_spans(block.primaries, states):
        return "the zone's primaries differ from the block's"
    if (zone.late, zone.ahead, zone.expired) != state_counts(states):
        return "the zone's counts differ from the block's"
    ids = decode_secondaries(zone.parts)
    if ids is not None and not np.array_equal(ids, np.unique(block.secondaries)):
        return "the zone's set of secondaries differs from the block's"
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
