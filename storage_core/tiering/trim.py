"""Trimming: blocks whose rows are in parts go, and parts answer in their place.

Heads, windows, index entries and the copies of late and ahead rows stay, and zones with them: what
goes is bytes. Those of small neighbours become one (format/joined_zone.py), so that rows that came
one by one are no dearer to read than others. A read that comes to the zone of a block that was
trimmed has the block made again (read/cold_blocks.py), so that all reads show what they showed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from storage_core.engine.key_value import Batch
from storage_core.errors import CorruptionError, LostRangeError
from storage_core.format.joined_zone import groups, joined
from storage_core.format.keys import log_key, zone_key
from storage_core.format.shard_state import (
    KEY_GENERATION,
    KEY_TRIMMED,
    AddressRange,
    ShardState,
    encode_int,
    generation_after,
)
from storage_core.format.zone import Zone, encode_zone
from storage_core.parts.progress import PROOF_PASSES, RowProgress
from storage_core.read.view import ShardView
from storage_core.retention.exclusive import alone
from storage_core.retention.expired import dead_segments
from storage_core.retention.removal import Segment, put_segments
from storage_core.tiering.making import made_here
from storage_core.tiering.part_work import Made, Maker, ProveWork
from storage_core.tiering.seal_report import Sealed, ShardTrim
from storage_core.write.shard import Shard

_ROWS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 256 * 2**20
_BLOCKS_MAX: Final = 2**16
_NS_A_MS: Final = 1_000_000


def trim_shard(shard: Shard, keep_hot_ms: int, maker: Maker = made_here) -> ShardTrim:
    """Let blocks go that parts stand for, once; durable on return.

    1. Choose: from where the last trim ended up to where sealing stands, the blocks that were
       committed `keep_hot_ms` ago, none of them behind a younger one; at most a million rows,
       65,536 blocks or 256 MiB, and not into a lost range. A block of the future, whose clock was
       set back, is as old as the next one behind it that is not.
    2. Prove: compare the files of its parts with their digests; make each block again of them, and
       compare it with the block, column by column.
    3. Publish: up to where blocks are gone, and which segments, and one zone in the places of those
       of small neighbours, the last that was trimmed before among them; in one WriteBatch, with
       the heads, so that no opening makes blocks again to know them; sync; write the marker with a
       new generation, so that readers in other processes look at parts too.
    4. Free: the blocks, and the segments that have none left, as expiry does.

    A crash before 3 changes nothing; one behind it leaves bytes that nothing refers to, which the
    next opening gives back. Appends, commits and reads go on beside all of it. `maker` does 2, here
    or in another process.

    Raises:
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        CorruptionError: A block is damaged, or its parts are, or differ from it: all stays.
        LostRangeError: A read found a block damaged behind 2: all stays.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return alone(shard, lambda: _trim(shard, keep_hot_ms, maker))


def trim_all(
    shards: Iterable[Shard], keep_hot_ms: int, progress: Sealed | None
) -> dict[int, ShardTrim]:
    """Trim all that may go of some shards, a million rows at a time at most.

    Args:
        shards: Them.
        keep_hot_ms: How old the commit of a block is, at least, for it to go.
        progress: Called again and again with how many rows are done so far.
    """
    done: dict[int, ShardTrim] = {}
    rows = RowProgress(progress, PROOF_PASSES)
    prove = partial(made_here, on_rows=rows.on_rows)
    for shard in shards:
        whole = step = trim_shard(shard, keep_hot_ms, prove)
        while step.blocks:
            rows.end_step(step.rows)
            step = trim_shard(shard, keep_hot_ms, prove)
            whole = whole.plus(step)
        done[shard.context.number] = whole
    return done


def _trim(shard: Shard, keep_hot_ms: int, maker: Maker) -> ShardTrim:
    shard.guard.refuse_if_unusable()
    now_ms = shard.context.environment.clock.now_ns() // _NS_A_MS
    view = shard.views.committed()
    try:
        begin = max(view.state.trimmed, view.state.start)
        zones = _chosen(view, begin, now_ms, keep_hot_ms)  # 1
        if not zones:
            return ShardTrim(begin, begin)
        end, rows = zones[-1].end, sum(zone.count for zone in zones)
        proven = maker(shard.context, view, ProveWork(begin, end, rows, view.state.catalogue))  # 2
        _refuse_unproven(view, begin, end, proven)
        gone = dead_segments(view, end, ())
        small = _small_neighbours(shard, view, zones)
    finally:
        view.close()
    change = partial(_published, view, AddressRange(begin, end), gone, small)
    shard.take_away(change)  # 3
    shard.free([(log_key(zones[0].first), log_key(end))], [number for number, _ in gone[0]])  # 4
    size = sum(zone.block_bytes for zone in zones)
    return ShardTrim(begin, end, rows, len(zones), size)


def _chosen(view: ShardView, begin: int, now_ms: int, keep_hot_ms: int) -> list[Zone]:
    """Return the zones of the blocks that may go next, neighbours all.

    A block whose time is still to come was committed while the clock was ahead. All behind it came
    later, so that it is at least as old as the first of them whose time can be.
    """
    lost = [one.start for one in view.state.lost if one.end > begin]
    end = min([view.state.sealed, view.committed, *lost])
    chosen: list[Zone] = []
    rows = size = old = 0
    for zone in view.zones(begin, end) if begin < end else ():
        if zone.end > end or now_ms - keep_hot_ms < zone.committed_at_ms <= now_ms:
            break
        if not _is_enough(chosen, rows, size):
            chosen.append(zone)
            rows += zone.count
            size += zone.block_bytes
        if not keep_hot_ms or zone.committed_at_ms <= now_ms - keep_hot_ms:
            old = len(chosen)
            if _is_enough(chosen, rows, size):
                break
    return chosen[:old]


def _is_enough(chosen: Sequence[Zone], rows: int, size: int) -> bool:
    return len(chosen) >= _BLOCKS_MAX or rows >= _ROWS_MAX or size >= _BYTES_MAX


def _small_neighbours(shard: Shard, view: ShardView, zones: Sequence[Zone]) -> list[list[Zone]]:
    """Return the zones that become one each: of blocks that go, and of the last that went."""
    begin = zones[0].previous_end
    before = list(islice(view.zones_back(view.state.start, begin), 1))
    options = shard.options
    each = groups((*before, *zones), view.scheme, options.block_records, options.block_bytes)
    return [group for group in each if len(group) > 1]


def _refuse_unproven(view: ShardView, begin: int, end: int, proven: Made) -> None:
    """Refuse what is an answer to something else: nobody would have what is trimmed for it.

    Raises:
        CorruptionError: It is.
    """
    if proven != Made((), end):
        message = "blocks were not proven that are to be trimmed; they stay"
        raise CorruptionError(message, stream=view.stream, shard=view.shard, start=begin, end=end)


def _published(
    view: ShardView,
    proven: AddressRange,
    gone: tuple[tuple[Segment, ...], int],
    small: Sequence[Sequence[Zone]],
    state: ShardState,
    _window_now: object,
) -> tuple[Batch, ShardState]:
    for lost in state.lost:
        if lost.overlaps(proven.start, proven.end):
            # Whoever repairs the log needs what is left of it.
            message = "a block that was to be trimmed was found damaged meanwhile; all stay"
            raise LostRangeError(
                message, stream=view.stream, shard=view.shard, start=lost.start, end=lost.end
            )
    batch = Batch()
    put_segments(batch, *gone)
    for group in small:
        _put_joined(batch, group, state)
    generation = generation_after(state.generation)
    batch.put(KEY_TRIMMED, encode_int(proven.end))
    batch.put(KEY_GENERATION, encode_int(generation))
    return batch, replace(state, trimmed=proven.end, generation=generation)


def _put_joined(batch: Batch, group: Sequence[Zone], state: ShardState) -> None:
    """Put one zone in the places of some, unless rows of theirs were lost or given up meanwhile.

    IMPORTANT: each key by itself. A reader in another process may go on seeing what a range of
    keys removed beside what was put there, until it opens the store anew.
    """
    start, end = group[0].first, group[-1].end
    if not any(one.overlaps(start, end) for one in (*state.lost, *state.gaps)):
        for zone in group[1:]:
            batch.delete(zone_key(zone.first))
        batch.put(zone_key(start), encode_zone(joined(group)))
