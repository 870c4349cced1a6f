"""Maintenance: the steps that are due in a shard, each of them bounded."""

from datetime import timedelta

from storage_core.catalog.options import StreamOptions
from storage_core.tiering.build import build_here
from storage_core.tiering.compact import compact_shard
from storage_core.tiering.part_directory import delete_obsolete_files
from storage_core.tiering.report import ShardTiering, TieringStep
from storage_core.tiering.seal import seal_shard
from storage_core.tiering.step import now_ms, tiering_of
from storage_core.tiering.trim import trim_shard
from storage_core.tiering.work import Builder
from storage_core.write.shard import Shard


def maintain_shard(
    shard: Shard, options: StreamOptions, builder: Builder = build_here
) -> ShardTiering:
    """Seal, compact and trim, where that is due; one step of each.

    1. Delete obsolete files, where some have stayed for `keep_replaced`; again behind the others.
    2. Seal, where `seal_rows` rows wait or the oldest has done so for `seal_after`, or for
       `lake_lag` where the stream has a lake: at most a million rows, or 256 MiB.
    3. Compact, once: at most a million rows, 64 MiB of files, or 256 MiB in memory.
    4. Trim, where `keep_hot` is set: at most a million rows, or 256 MiB.

    `builder` builds the files of 2 and 3, and proves those of 4. Whoever calls it again and again
    has done all that is due once it reports no step.
    """
    # Also where nothing else is due, and where what was sealed by hand is not maintained. Before
    # the steps, since on a full disk obsolete files make room for what is built.
    delete_obsolete_files(shard)
    steps = [] if options.never_cold else _steps(shard, options, builder)
    delete_obsolete_files(shard)
    return tiering_of(shard, steps)


def _steps(shard: Shard, options: StreamOptions, builder: Builder) -> list[TieringStep]:
    rows_min = 1 if _has_waited(shard, _seal_after(options)) else options.seal_rows
    steps = [seal_shard(shard, builder, rows_min), compact_shard(shard, builder)]
    if options.keep_hot is not None:
        keep_hot_ms = int(options.keep_hot / timedelta(milliseconds=1))
        steps.append(trim_shard(shard, builder, keep_hot_ms))
    return [step for step in steps if step is not None]


def first_committed_ms(shard: Shard, begin: int) -> int | None:
    """Return when the first row at or above an address was committed; None if there is none."""
    view = shard.snapshots.committed()
    try:
        begin = max(begin, view.state.start)
        first = next(view.zones(begin, view.committed), None) if begin < view.committed else None
    finally:
        view.close()
    return None if first is None else first.committed_at_ms


def _seal_after(options: StreamOptions) -> timedelta:
    """Return how old a row may be that is not sealed: what is to be published is sealed before."""
    return options.seal_after if options.lake is None else min(options.seal_after, options.lake_lag)


def _has_waited(shard: Shard, span: timedelta) -> bool:
    """Tell whether the oldest row that is not sealed has been committed for so long.

    One of the future has, as far as anybody can tell: it came while the clock was ahead, and parts
    may be built early.
    """
    first_ms = first_committed_ms(shard, shard.state().sealed)
    return first_ms is not None and not (
        0 <= now_ms(shard) - first_ms < span / timedelta(milliseconds=1)
    )
