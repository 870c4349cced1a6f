"""Maintenance: what is due in a shard's parts, a bounded step at a time."""

from datetime import timedelta
from typing import Final

from storage_core.catalog.options import StreamOptions
from storage_core.tiering.compact import compact_shard
from storage_core.tiering.maintain_report import ShardMaintenance
from storage_core.tiering.making import made_here
from storage_core.tiering.part_work import Maker
from storage_core.tiering.replaced import sweep_due
from storage_core.tiering.seal import seal_shard
from storage_core.tiering.trim import trim_shard
from storage_core.write.shard import Shard

_NS_A_MS: Final = 1_000_000


def maintain_shard(
    shard: Shard, options: StreamOptions, maker: Maker = made_here
) -> ShardMaintenance:
    """Seal what has waited for long enough, join some parts, and trim, where that is due.

    1. Seal, where `seal_rows` rows wait or the oldest has done so for `seal_after`: at most a
       million rows, or 256 MiB.
    2. Compact, once: at most a million rows, 64 MiB of files, or 256 MiB in memory.
    3. Trim, where `keep_hot` is set: at most a million rows, or 256 MiB.
    4. Sweep, where files that were replaced have stayed for `keep_replaced`.

    `maker` makes the files of 1 and 2, and proves those of 3. Whoever calls it again and again has
    done all that is due once it says that nothing is.
    """
    done = ShardMaintenance() if options.never_cold else _maintained(shard, options, maker)
    # Also where nothing else is due, and what was sealed by hand is not maintained.
    sweep_due(shard)
    return done


def _maintained(shard: Shard, options: StreamOptions, maker: Maker) -> ShardMaintenance:
    rows_min = 1 if _has_waited(shard, options.seal_after) else options.seal_rows
    sealed = seal_shard(shard, rows_min, maker)
    was_due = sealed.sealed > sealed.sealed_before
    compacted = compact_shard(shard, maker)
    trimmed = None
    if options.keep_hot is not None:
        step = trim_shard(shard, int(options.keep_hot / timedelta(milliseconds=1)), maker)
        trimmed = step if step.blocks else None
    return ShardMaintenance(sealed if was_due else None, compacted, trimmed)


def _has_waited(shard: Shard, span: timedelta) -> bool:
    """Tell whether the oldest row that is not sealed has been committed for so long.

    One of the future has, as far as anybody can tell: it came while the clock was ahead, and parts
    may be made early.
    """
    view = shard.snapshots.committed()
    try:
        begin = max(view.state.sealed, view.state.start)
        if begin >= view.committed:
            return False
        first = next(view.zones(begin, view.committed), None)
    finally:
        view.close()
    now_ms = shard.context.environment.clock.now_ns() // _NS_A_MS
    return first is not None and not (
        0 <= now_ms - first.committed_at_ms < span / timedelta(milliseconds=1)
    )
