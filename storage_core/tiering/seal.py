"""Sealing: a shard's rows up to an address become parts, beside the blocks that have them.

The log stays the only truth. A part is derived from it, up to an address; whatever happens, what is
below `sealed` is in parts that are durable and were proven equal to the rows they were built of.
"""

from dataclasses import replace
from functools import partial

from storage_core.engine.key_value import Batch
from storage_core.format.keys import INT64_MAX
from storage_core.format.shard_state import KEY_SEALED, ShardState, encode_int
from storage_core.read.ahead_places import ahead_between
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.build import build_here
from storage_core.tiering.report import TieringStep
from storage_core.tiering.step import Plan, now_ms, run_step
from storage_core.tiering.work import Builder, Built, SealWork
from storage_core.write.shard import Shard


def seal_shard(
    shard: Shard, builder: Builder = build_here, rows_min: int = 1
) -> TieringStep | None:
    """Build parts of what is committed and not sealed yet, once; None if that is too little.

    1. Choose: from where the last seal ended (or the log begins) to committed, if that has
       `rows_min` rows; at most a million rows, or 256 MiB, and not into a lost range. Rows ahead of
       the clock that outlived their blocks are among them.
    2. Build: a file for each value schema, and one more for its rows that were late, ahead or
       expired; the files and their directory are synced.
    3. Prove: read each file back, and compare its rows with those of the log.
    4. Publish: the entries and where sealing stands. With a stream's first part it names the
       feature, durably, before.
    """
    return run_step(shard, partial(_choose, rows_min), builder)


def _choose(rows_min: int, shard: Shard, view: ShardSnapshot) -> Plan | None:
    state = view.state
    begin = max(state.sealed, state.start)
    lost = [gap.start for gap in state.lost if gap.end > begin]
    end = min([view.committed, *lost])
    rows = end - begin
    if state.sealed < begin <= end and rows < rows_min:
        rows += _without_blocks(view, begin)
    if rows < rows_min:
        return None
    numbers = state.generation, state.parts, now_ms(shard)
    work = SealWork(state.sealed, end, *numbers, is_for_lake=shard.options.lake is not None)
    return Plan(work, check=lambda _: None, change=_change, report=partial(_report, begin))


def _without_blocks(view: ShardSnapshot, begin: int) -> int:
    """Return how many rows ahead of the clock no part has, of those below the log's begin."""
    places = ahead_between(view, None, view.state.floor, INT64_MAX)
    return int(((places.address >= view.state.sealed) & (places.address < begin)).sum())


def _change(batch: Batch, state: ShardState, built: Built) -> ShardState:
    batch.put(KEY_SEALED, encode_int(built.end))
    return replace(state, sealed=built.end)


def _report(begin: int, built: Built) -> TieringStep:
    return TieringStep(
        "seal", begin, built.end, sum(part.rows for part in built.parts), built.parts
    )
