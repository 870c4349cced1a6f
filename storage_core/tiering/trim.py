"""Trimming: deletes the blocks of the log whose rows are in parts; reads use the parts instead.

Heads, windows, index entries, zones and the copies of late and ahead rows stay. The zones of small
neighbours become one (format/joined_zone.py), so that rows that came one by one are no dearer to
read than others. A read that comes to the zone of a trimmed block rebuilds the block
(read/cold/blocks.py), so that all reads return what they did.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from storage_core.engine.key_value import Batch
from storage_core.errors import CorruptionError, LostRangeError
from storage_core.format.joined_zone import groups, joined
from storage_core.format.keys import log_key, zone_key
from storage_core.format.shard_state import KEY_TRIMMED, ShardState, encode_int
from storage_core.format.zone import Zone, encode_zone
from storage_core.read.snapshot import ShardSnapshot
from storage_core.retention.expired import dead_segments
from storage_core.retention.removal import Segment, put_segments
from storage_core.tiering.build import build_here
from storage_core.tiering.limits import STEP_BLOCKS_MAX, STEP_BYTES_MAX, STEP_ROWS_MAX
from storage_core.tiering.report import TieringStep
from storage_core.tiering.step import Plan, now_ms, put_new_generation, run_step
from storage_core.tiering.work import Builder, Built, ProveWork
from storage_core.write.shard import Shard


def trim_shard(
    shard: Shard, builder: Builder = build_here, keep_hot_ms: int = 0
) -> TieringStep | None:
    """Delete blocks that parts can replace, once; None if there are none.

    1. Choose: from where the last trim ended up to where sealing stands, the blocks that were
       committed `keep_hot_ms` ago, none of them behind a younger one; at most a million rows,
       65,536 blocks or 256 MiB, and not into a lost range. A block of the future, whose clock was
       set back, is as old as the next one behind it that is not.
    2. Nothing is built.
    3. Prove: compare the files of its parts with their digests; rebuild each block of them, and
       compare it with the block, column by column.
    4. Publish: up to where blocks are gone, and which segments, and one zone in the places of those
       of small neighbours, the last that was trimmed before among them; with the heads, so that no
       opening rebuilds blocks to know them; and with a new generation, so that readers in other
       processes look at parts too.
    5. Free: the blocks, and the segments that have none left, as expiry does.

    Raises:
        LostRangeError: A read found a block damaged behind 3: all stays.
    """
    return run_step(shard, partial(_choose, keep_hot_ms), builder)


@dataclass(frozen=True, slots=True)
class _Trim:
    """Blocks that are to be deleted, and what changes with them.

    Attributes:
        view: What they were chosen from.
        begin: Where the last trim ended.
        zones: Theirs, all neighbours.
        segments: The segments that have no other block, and from which one on they are looked at.
        small: The zones that become one each.
    """

    view: ShardSnapshot
    begin: int
    zones: list[Zone]
    segments: tuple[tuple[Segment, ...], int]
    small: list[list[Zone]]

    @property
    def end(self) -> int:
        return self.zones[-1].end

    @property
    def rows(self) -> int:
        return sum(zone.count for zone in self.zones)

    def plan(self) -> Plan:
        return Plan(
            ProveWork(self.begin, self.end, self.rows, self.view.state.part_list_sum),
            check=self._check,
            change=self._change,
            report=self._report,
            blocks=((log_key(self.zones[0].first), log_key(self.end)),),
            segments=tuple(number for number, _ in self.segments[0]),
        )

    def _check(self, proven: Built) -> None:
        """Refuse the answer to something else: nobody would have what is trimmed for it.

        Raises:
            CorruptionError: It is.
        """
        if proven != Built((), self.end):
            message = "blocks were not proven that are to be trimmed; they stay"
            view = self.view
            raise CorruptionError(
                message, stream=view.stream, shard=view.shard, start=self.begin, end=self.end
            )

    def _change(self, batch: Batch, state: ShardState, proven: Built) -> ShardState:
        for lost in state.lost:
            if lost.overlaps(self.begin, self.end):
                # Whoever repairs the log needs what is left of it.
                message = "a block that was to be trimmed was found damaged meanwhile; all stay"
                view = self.view
                raise LostRangeError(
                    message, stream=view.stream, shard=view.shard, start=lost.start, end=lost.end
                )
        put_segments(batch, *self.segments)
        for zones in self.small:
            _put_joined(batch, zones, state)
        batch.put(KEY_TRIMMED, encode_int(proven.end))
        return put_new_generation(batch, replace(state, trimmed=proven.end), proven)

    def _report(self, proven: Built) -> TieringStep:
        return TieringStep(
            "trim",
            self.begin,
            proven.end,
            self.rows,
            blocks=len(self.zones),
            block_bytes=sum(zone.block_bytes for zone in self.zones),
        )


def _choose(keep_hot_ms: int, shard: Shard, view: ShardSnapshot) -> Plan | None:
    begin = max(view.state.trimmed, view.state.start)
    zones = _chosen(view, begin, now_ms(shard), keep_hot_ms)
    if not zones:
        return None
    segments = dead_segments(view, zones[-1].end, ())
    return _Trim(view, begin, zones, segments, _small_neighbours(shard, view, zones)).plan()


def _chosen(view: ShardSnapshot, begin: int, now: int, keep_hot_ms: int) -> list[Zone]:
    """Return the zones of the blocks that may be trimmed next, neighbours all.

    A block whose time is still to come was committed while the clock was ahead. All behind it came
    later, so that it is at least as old as the first of them whose time can be.
    """
    lost = [gap.start for gap in view.state.lost if gap.end > begin]
    end = min([view.state.sealed, view.committed, *lost])
    chosen: list[Zone] = []
    rows = size = old = 0
    for zone in view.zones(begin, end) if begin < end else ():
        if zone.end > end or now - keep_hot_ms < zone.committed_at_ms <= now:
            break
        if not _is_enough(chosen, rows, size):
            chosen.append(zone)
            rows += zone.count
            size += zone.block_bytes
        if not keep_hot_ms or zone.committed_at_ms <= now - keep_hot_ms:
            old = len(chosen)
            if _is_enough(chosen, rows, size):
                break
    return chosen[:old]


def _is_enough(chosen: Sequence[Zone], rows: int, size: int) -> bool:
    return len(chosen) >= STEP_BLOCKS_MAX or rows >= STEP_ROWS_MAX or size >= STEP_BYTES_MAX


def _small_neighbours(shard: Shard, view: ShardSnapshot, zones: Sequence[Zone]) -> list[list[Zone]]:
    """Return the zones that become one each: of blocks that go, and of the last that went."""
    begin = zones[0].previous_end
    before = list(islice(view.zones_back(view.state.start, begin), 1))
    options = shard.options
    joinable = groups((*before, *zones), view.scheme, options.block_records, options.block_bytes)
    return [group for group in joinable if len(group) > 1]


def _put_joined(batch: Batch, group: Sequence[Zone], state: ShardState) -> None:
    """Put one zone in the places of some, unless some of their rows were lost meanwhile.

    IMPORTANT: each key by itself. A reader in another process may go on seeing what a range of
    keys removed beside what was put there, until it opens the store anew.
    """
    start, end = group[0].first, group[-1].end
    if not any(gap.overlaps(start, end) for gap in (*state.lost, *state.gaps)):
        for zone in group[1:]:
            batch.delete(zone_key(zone.first))
        batch.put(zone_key(start), encode_zone(joined(group)))
