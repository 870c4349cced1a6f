"""Trimming: blocks whose rows are in parts go, and parts answer in their place.

Zones stay, and heads, windows, index entries and the copies of late and ahead rows with them: what
goes is bytes. A read that comes to the zone of a block that was trimmed has the block made again
(storage_core/read/cold_blocks.py), so that all reads show what they showed.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.catalog.stream_meta import TRIMMED
from storage_core.errors import CorruptionError
from storage_core.format.block import Block
from storage_core.format.keys import log_key
from storage_core.format.record import ENVELOPE, SCHEMA
from storage_core.format.shard_state import (
    KEY_GENERATION,
    KEY_TRIMMED,
    ShardState,
    encode_int,
)
from storage_core.format.zone import Zone
from storage_core.parts.seal_report import Sealed, ShardTrim
from storage_core.read.cold_blocks import ColdBlocks
from storage_core.read.columns import block_columns
from storage_core.read.parts import parts_directory, parts_in
from storage_core.read.view import ShardView
from storage_core.store.key_value import Batch
from storage_core.upkeep.exclusive import alone
from storage_core.upkeep.expired import dead_segments
from storage_core.upkeep.part_checks import difference
from storage_core.upkeep.removal import Segment, put_segments
from storage_core.write.shard import Shard

_ROWS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 256 * 2**20
_NS_A_MS: Final = 1_000_000
_COMPARED: Final = (
    *("secondary", "primary", "address", "version", "state", "payload", "committed_at_ms"),
    *(*ENVELOPE, SCHEMA),
)


def trim_shard(shard: Shard, keep_hot_ms: int) -> ShardTrim:
    """Let blocks go that parts stand for, once; durable on return.

    1. Choose: from where the last trim ended up to where sealing stands, the blocks that were
       committed `keep_hot_ms` ago, none of them behind a younger one; at most a million rows, or
       256 MiB, and not into a lost range.
    2. Prove: compare the files of its parts with their digests; make each block again of them, and
       compare it with the block, column by column.
    3. Publish: up to where blocks are gone, and which segments, in one WriteBatch, with the heads,
       so that no opening makes blocks again to know them; sync; write the marker with a new
       generation, so that readers in other processes look at parts too. With a stream's first trim
       it names the feature, durably, before.
    4. Free: the blocks, and the segments that have none left, as expiry does.

    A crash before 3 changes nothing; one behind it leaves bytes that nothing refers to, which the
    next opening gives back. Appends, commits and reads go on beside all of it.

    Raises:
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        CorruptionError: A block is damaged, or its parts are, or differ from it: all stays.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return alone(shard, lambda: _trim(shard, keep_hot_ms))


def trim_all(
    shards: Iterable[Shard], keep_hot_ms: int, progress: Sealed | None
) -> dict[int, ShardTrim]:
    """Trim all that may go of some shards, a million rows at a time at most.

    Args:
        shards: Them.
        keep_hot_ms: How old the commit of a block is, at least, for it to go.
        progress: Called behind each step with how many rows lost their blocks so far.
    """
    done: dict[int, ShardTrim] = {}
    rows = 0
    for shard in shards:
        whole = step = trim_shard(shard, keep_hot_ms)
        while step.blocks:
            rows += step.rows
            if progress is not None:
                progress(rows)
            step = trim_shard(shard, keep_hot_ms)
            whole = whole.plus(step)
        done[shard.context.number] = whole
    return done


def _trim(shard: Shard, keep_hot_ms: int) -> ShardTrim:
    shard.guard.refuse_if_unusable()
    now_ms = shard.context.environment.clock.now_ns() // _NS_A_MS
    view = shard.views.committed()
    try:
        begin = max(view.state.trimmed, view.state.start)
        zones = _chosen(view, begin, now_ms - keep_hot_ms)  # 1
        if not zones:
            return ShardTrim(begin, begin)
        end = zones[-1].end
        directory = parts_directory(shard.context.directory)
        _prove_files(view, begin, end, directory)  # 2
        _prove(view, zones, ColdBlocks(view, directory))
        segments, segments_begin = dead_segments(view, end, ())
    finally:
        view.close()
    shard.context.name_feature(TRIMMED)
    shard.take_away(partial(_published, end, segments, segments_begin))  # 3
    shard.free([(log_key(zones[0].first), log_key(end))], [number for number, _ in segments])  # 4
    size = sum(zone.block_bytes for zone in zones)
    return ShardTrim(begin, end, sum(zone.count for zone in zones), len(zones), size)


def _chosen(view: ShardView, begin: int, committed_before_ms: int) -> list[Zone]:
    """Return the zones of the blocks that may go next, neighbours all."""
    lost = [one.start for one in view.state.lost if one.end > begin]
    end = min([view.state.sealed, view.committed, *lost])
    chosen: list[Zone] = []
    rows = size = 0
    for zone in view.zones(begin, end) if begin < end else ():
        if zone.end > end or zone.committed_at_ms > committed_before_ms:
            break
        chosen.append(zone)
        rows += zone.count
        size += zone.block_bytes
        if rows >= _ROWS_MAX or size >= _BYTES_MAX:
            break
    return chosen


def _prove_files(view: ShardView, begin: int, end: int, directory: Path) -> None:
    """Compare the files of parts that have rows of a range with what was published.

    Raises:
        CorruptionError: One is damaged or gone.
    """
    for part in parts_in(view).entries:
        if part.first >= end or part.last < begin:
            continue
        path = directory / part.file_name
        if what := difference(path, part):
            message = f"{part.file_name} {what}; blocks that it has rows of are not trimmed"
            raise CorruptionError(
                message,
                stream=view.stream,
                shard=view.shard,
                path=path,
                start=part.first,
                end=part.last + 1,
            )


def _prove(view: ShardView, zones: list[Zone], parts: ColdBlocks) -> None:
    """Compare blocks with what their parts make of them.

    Raises:
        CorruptionError: A block cannot be read, or is not what its parts make.
    """
    for zone, block in view.blocks(iter(zones)):
        what = "the parts of a block do not have its rows; it is not trimmed"
        try:
            if _rows(view, parts.block(zone)).equals(_rows(view, block)):
                continue
        except CorruptionError as error:
            what = f"a block's parts cannot stand for it, and it is not trimmed: {error.message}"
            raise _of_zone(view, zone, what, error) from error
        raise _of_zone(view, zone, what, None)


def _rows(view: ShardView, block: Block) -> pa.RecordBatch:
    return block_columns(block, view.shard, _COMPARED, None)


def _of_zone(
    view: ShardView, zone: Zone, what: str, error: CorruptionError | None
) -> CorruptionError:
    return CorruptionError(
        what,
        stream=view.stream,
        shard=view.shard,
        path=None if error is None else error.path,
        start=zone.first,
        end=zone.end,
    )


def _published(
    end: int,
    segments: tuple[Segment, ...],
    segments_begin: int,
    state: ShardState,
    _window_now: object,
) -> tuple[Batch, ShardState]:
    batch = Batch()
    put_segments(batch, segments, segments_begin)
    generation = (state.generation // 2 + 1) * 2
    batch.put(KEY_TRIMMED, encode_int(end))
    batch.put(KEY_GENERATION, encode_int(generation))
    return batch, replace(state, trimmed=end, generation=generation)
