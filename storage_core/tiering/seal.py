"""Sealing: a shard's rows up to an address become parts, beside the blocks that have them.

The log stays the only truth. A part is derived from it, up to an address; whatever happens, what is
below `sealed` is in parts that are durable and were proven equal to the rows they were made of.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from storage_core.engine.key_value import Batch
from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import (
    KEY_SEALED,
    ShardState,
    encode_int,
)
from storage_core.parts.part_list import replace_parts
from storage_core.parts.progress import BUILD_PASSES, RowProgress
from storage_core.platform.durable_file import taking_errors
from storage_core.read.cold.parts import parts_directory
from storage_core.read.view import ShardView
from storage_core.retention.exclusive import alone
from storage_core.tiering.making import made_here
from storage_core.tiering.part_work import Maker, SealWork
from storage_core.tiering.replaced import cleared_on_failure, sweep, sweep_due
from storage_core.tiering.seal_report import Sealed, ShardSeal
from storage_core.tiering.visible_files import prepared_directory, show_parts
from storage_core.write.shard import Shard

ROWS_MIN: Final = 32_768
_ROWS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 256 * 2**20
_NS_A_MS: Final = 1_000_000


def seal_shard(shard: Shard, rows_min: int = ROWS_MIN, maker: Maker = made_here) -> ShardSeal:
    """Make parts of what is committed and not sealed yet, once; durable on return.

    1. Choose: from where the last seal ended (or the log begins) to committed, if that has
       `rows_min` rows; at most a million rows, or 256 MiB, and not into a lost range.
    2. Sweep: files of parts that no entry names are what a crash left, or were replaced: of
       those the ones go that have stayed for long enough (replaced.py).
    3. Make: a file for each kind of value, and one more for its rows that were late, ahead or
       expired; the files and their directory are synced.
    4. Prove: read each file back, and compare its rows with those of the log.
    5. Publish: the entries and where sealing stands, in one WriteBatch; sync; write the marker.
       With a stream's first part it names the feature, durably, before.
    6. Show: the files get the names that other programs see (visible_files.py).

    A crash before 5 leaves files, which the next one sweeps, and blocks as they were. Appends,
    commits and reads go on beside all of it. `maker` does 3 and 4, here or in another process.

    Raises:
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        CorruptionError: A part does not have the rows it was made of; it is not published.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return alone(shard, lambda: _seal(shard, rows_min, maker))


def seal_all(
    shards: Iterable[Shard], rows_min: int, progress: Sealed | None
) -> dict[int, ShardSeal]:
    """Seal all that is committed of some shards, a million rows at a time at most.

    Args:
        shards: Them.
        rows_min: Of a shard that has fewer unsealed rows nothing is sealed.
        progress: Called again and again with how many rows are done so far.
    """
    done: dict[int, ShardSeal] = {}
    rows = RowProgress(progress, BUILD_PASSES)
    make = partial(made_here, on_rows=rows.on_rows)
    for shard in shards:
        whole = step = seal_shard(shard, rows_min, make)
        while step.sealed > step.sealed_before:
            rows.end_step(step.rows)
            step = seal_shard(shard, rows_min, make)
            parts = (*whole.parts, *step.parts)
            whole = ShardSeal(whole.sealed_before, step.sealed, parts)
        sweep_due(shard)
        done[shard.context.number] = whole
    return done


def _seal(shard: Shard, rows_min: int, maker: Maker) -> ShardSeal:
    shard.guard.refuse_if_unusable()
    view = shard.views.committed()
    try:
        begin = max(view.state.sealed, view.state.start)
        end = _end_of(view, begin)
        if end - begin < rows_min:  # 1
            return ShardSeal(begin, begin)
        directory = parts_directory(shard.context.directory)
        with taking_errors(directory, "parts cannot be made"):
            prepared_directory(shard)
            sweep(shard, view)  # 2
            now_ms = shard.context.environment.clock.now_ns() // _NS_A_MS
            work = SealWork(begin, end, view.state.generation, view.state.parts, now_ms)
            with cleared_on_failure(shard, view):
                made = maker(shard.context, view, work)  # 3, 4
    finally:
        view.close()
    shard.take_away(partial(_published, made.parts, made.end))  # 5
    show_parts(shard, (), made.parts)  # 6
    return ShardSeal(begin, made.end, made.parts)


def _end_of(view: ShardView, begin: int) -> int:
    """Return how far sealing may go: to committed, or to the first lost range."""
    lost = [one.start for one in view.state.lost if one.end > begin]
    return min([view.committed, *lost])


def _published(
    parts: Sequence[PartEntry], end: int, state: ShardState, _window_now: object
) -> tuple[Batch, ShardState]:
    batch = Batch()
    after = replace_parts(batch, state, (), parts)
    batch.put(KEY_SEALED, encode_int(end))
    return batch, replace(after, sealed=end)
