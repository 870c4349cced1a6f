"""What expiry takes away, turned into one batch, and the state that then holds.

Blocks that go behind one that stays leave a zone in their place, so that the chain is whole: marked
as expired, and grown over its neighbours that are. However much goes behind a row that stays, one
zone holds the place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from storage_core.engine.key_value import Batch, KeyRange
from storage_core.format.keys import (
    PREFIX_SEGMENT,
    log_key,
    segment_key,
    window_key,
    zone_key,
)
from storage_core.format.shard_state import (
    KEY_CUT,
    KEY_EXPIRED,
    KEY_GENERATION,
    KEY_SEGMENTS_BEGIN,
    KEY_START,
    AddressRange,
    ShardState,
    encode_int,
    encode_segment,
    gap_key,
    generation_after,
    lost_key,
    pass_key,
)
from storage_core.format.window import Window
from storage_core.format.zone import encode_zone, expired_zone

Ranges = tuple[AddressRange, ...]
# From one to before another, in the log's family.
Keys = tuple[bytes, bytes]
# Its number, and the address of its first block.
Segment = tuple[int, int]
# A family, and a key of it.
Delete = tuple[str, bytes]
# Says a window's summary as it stands under the append lock.
WindowNow = Callable[[int], Window]


@dataclass(frozen=True, slots=True)
class DeadRun:
    """Neighbouring blocks behind a row that stays, of which no row does.

    `previous_end`, `first` and `last` are of the zone that stands for them from then on; `zones`
    tells how many it takes the places of, itself among them.
    """

    previous_end: int
    first: int
    last: int
    zones: int
    blocks: int
    bytes: int

    def put(self, batch: Batch, generation: int) -> None:
        """Remove the blocks, and put one zone in the places of theirs."""
        zone = expired_zone(self.previous_end, self.first, self.last, generation)
        if self.zones > 1:
            batch.delete_range(zone_key(self.first), zone_key(self.last + 1))
        batch.put(zone_key(self.first), encode_zone(zone))


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes at a floor; `blocks` and `bytes` are of all blocks, those in runs too."""

    floor: int
    start: int
    windows: int = 0
    rows: int = 0
    late_rows: int = 0
    blocks: int = 0
    bytes: int = 0
    ranges: tuple[KeyRange, ...] = ()
    runs: tuple[DeadRun, ...] = ()
    segments: tuple[Segment, ...] = ()
    segments_begin: int = 0
    start_before: int = 0
    cut: int = 0
    deletes: tuple[Delete, ...] = ()
    windows_cut: tuple[tuple[int, Window], ...] = ()

    @property
    def freed_blocks(self) -> list[Keys]:
        """The ranges of keys of blocks to which nothing refers any more."""
        freed = [(log_key(run.first), log_key(run.last + 1)) for run in self.runs]
        if self.start > self.start_before:
            freed.append((log_key(self.start_before), log_key(self.start)))
        return freed

    @property
    def freed_segments(self) -> list[int]:
        """The segments to which nothing refers any more."""
        return [number for number, _ in self.segments]

    def change(self, state: ShardState, window_now: WindowNow) -> tuple[Batch, ShardState]:
        """Return what is written, and the state that then holds."""
        batch = Batch(deletes=[*self.deletes], range_deletes=[*self.ranges])
        for number, seen in self.windows_cut:
            # IMPORTANT: rows may have come to it since it was looked at.
            if window_now(number) == seen:
                batch.delete(window_key(number))
        start = max(state.start, self.start)
        floor = max(state.floor, self.floor)
        ends = [run.last + 1 for run in self.runs]
        after = replace(
            state, floor=floor, start=start, expired_end=max([state.expired_end, *ends])
        )
        if self.cut > state.cut:
            after = replace(after, cut=self.cut)
            batch.put(KEY_CUT, encode_int(self.cut))
        if start > state.start:
            batch.delete_range(zone_key(state.start), zone_key(start))
            batch.put(KEY_START, encode_int(start))
            after = _without_ranges_below(start, batch, after)
        generation = generation_after(state.generation)
        for run in self.runs:
            run.put(batch, generation)
        if after.expired_end > state.expired_end:
            batch.put(KEY_EXPIRED, encode_int(after.expired_end))
        put_segments(batch, self.segments, self.segments_begin)
        if self.runs or batch.deletes or batch.range_deletes:
            # Readers that follow reopen: theirs would go on seeing some of it.
            after = replace(after, generation=generation)
            batch.put(KEY_GENERATION, encode_int(generation))
        return batch, after


def put_segments(batch: Batch, gone: Sequence[Segment], begin: int) -> None:
    """Note which segments are gone, and the first that is kept (0: as before)."""
    for number, first in gone:
        # IMPORTANT: deletes come before puts.
        if number > begin:
            batch.put(segment_key(number), encode_segment(first, is_gone=True))
    if begin:
        batch.delete_range(PREFIX_SEGMENT, segment_key(begin))
        batch.put(KEY_SEGMENTS_BEGIN, encode_int(begin))


def _without_ranges_below(start: int, batch: Batch, state: ShardState) -> ShardState:
    """Forget what is noted of addresses below the log's start."""

    def trimmed(ranges: Ranges, key_of: Callable[[int], bytes]) -> Ranges:
        for below in (span for span in ranges if span.end <= start):
            batch.delete(key_of(below.start))
        return tuple(span for span in ranges if span.end > start)

    return replace(
        state,
        lost=trimmed(state.lost, lost_key),
        gaps=trimmed(state.gaps, gap_key),
        passed=trimmed(state.passed, pass_key),
    )
