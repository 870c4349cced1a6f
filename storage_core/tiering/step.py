"""The one course of a step that seals, compacts, trims or rebuilds: all of them follow it.

    1. choose    from a view of what is committed: what is to be done, within the limits
    2. build     the files of parts, here or in another process; synced
    3. prove     each file is read back and compared with the rows it was built of; or parts are
                 compared with the blocks that they are to replace
    4. publish   what changes, in one WriteBatch; sync; write the marker; then the visible names
    5. free      files, blocks and segments that nothing refers to any more
    6. report    what was done

A crash before 4 leaves files that no entry names, which the next step deletes; one behind it leaves
what nothing refers to, which the next opening or deletion of obsolete files deletes. Appends,
commits and reads go on beside all of it.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from storage_core.engine.key_value import Batch
from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import (
    KEY_GENERATION,
    ShardState,
    encode_int,
    generation_after,
)
from storage_core.parts.part_list import replace_parts
from storage_core.parts.progress import OnRows
from storage_core.parts.snapshot import parts_directory
from storage_core.platform.durable_file import taking_errors
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.build import build_here
from storage_core.tiering.part_directory import (
    delete_obsolete_files,
    discard_files,
    room_for_parts,
    show_parts,
)
from storage_core.tiering.report import ShardTiering, TieringReport, TieringStep
from storage_core.tiering.work import Builder, Built, ProveWork, Work
from storage_core.write.shard import Shard

# How often a step that builds files goes over its rows.
BUILD_PASSES: Final = 3
# A step that compares blocks with their parts does so once.
PROOF_PASSES: Final = 1
_NS_A_MS: Final = 1_000_000


# What changes beside the part list: it is put into the batch, and the new state returned.
Change = Callable[[Batch, ShardState, Built], ShardState]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a step is going to do, as chosen from one view.

    Attributes:
        work: What is to be built, or proven.
        check: Raises `CorruptionError` where something else was built.
        change: What changes beside the part list.
        report: Returns what was done.
        obsolete: The parts that the built ones replace.
        blocks: The ranges of keys of blocks that nothing refers to afterwards.
        segments: The segments of which that is true.
    """

    work: Work
    check: Callable[[Built], None]
    change: Change
    report: Callable[[Built], TieringStep]
    obsolete: tuple[PartEntry, ...] = ()
    blocks: tuple[tuple[bytes, bytes], ...] = ()
    segments: tuple[int, ...] = ()


# Chooses what is to be done; None where nothing is.
Choose = Callable[[Shard, ShardSnapshot], Plan | None]
# Does one step; None where there is none to do.
Step = Callable[[Shard, Builder], TieringStep | None]


def run_step(shard: Shard, choose: Choose, builder: Builder) -> TieringStep | None:
    """Do one step in a shard, alone with it; durable on return. None where nothing is to be done.

    Raises:
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        CorruptionError: What is read is damaged, or what was built differs from it; all stays as
            it is.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return shard.guard.maintain(lambda: _run(shard, choose, builder))


def run_all(
    shards: Iterable[Shard],
    step: Step,
    on_rows: OnRows | None,
    *,
    builds: bool = True,
    builder: Builder | None = None,
) -> TieringReport:
    """Do all steps that there are to do in some shards.

    Obsolete files are deleted before and after steps that build some: on a full disk they make room
    for what is built. Steps that only prove parts need no right to write beside them.

    Args:
        shards: Them.
        step: Does one.
        on_rows: Called again and again with how many rows are done so far.
        builds: Whether the steps build files of parts.
        builder: Builds them; None for doing so here.
    """
    progress = RowProgress(on_rows, BUILD_PASSES if builds else PROOF_PASSES)
    build = builder or partial(build_here, on_rows=progress.on_rows)
    done: dict[int, ShardTiering] = {}
    for shard in shards:
        steps: list[TieringStep] = []
        if builds:
            delete_obsolete_files(shard)
        while (last := step(shard, build)) is not None:
            steps.append(last)
            progress.end_step(last.rows)
        if builds:
            delete_obsolete_files(shard)
        done[shard.context.number] = tiering_of(shard, steps)
    return TieringReport(done)


class RowProgress:
    """Counts the rows of steps that are done, and about how many of the one under way.

    A step goes over its rows several times: it reads them, writes them, and proves what it wrote.
    Each time counts for its share, so that the count only grows.
    """

    def __init__(self, report: OnRows | None, passes: int) -> None:
        """Begin at none.

        Args:
            report: Called with how many rows are done so far.
            passes: How often a step goes over its rows.
        """
        self._report = report
        self._passes = passes
        self._done = 0
        self._passed = 0

    def on_rows(self, rows: int) -> None:
        """Count rows that the step under way has gone over once more."""
        self._passed += rows
        if self._report is not None:
            self._report(self._done + self._passed // self._passes)

    def end_step(self, rows: int) -> None:
        """Count the rows of the step that is over."""
        self._done += rows
        self._passed = 0
        self.on_rows(0)


def tiering_of(shard: Shard, steps: Iterable[TieringStep]) -> ShardTiering:
    """Return what was done in a shard, and how far it is."""
    state = shard.state()
    first = state.start
    return ShardTiering(max(state.sealed, first), max(state.trimmed, first), tuple(steps))


def put_new_generation(batch: Batch, state: ShardState, _built: Built) -> ShardState:
    """Put a new generation, for which readers in other processes open the store anew."""
    generation = generation_after(state.generation)
    batch.put(KEY_GENERATION, encode_int(generation))
    return replace(state, generation=generation)


def now_ms(shard: Shard) -> int:
    """Return the time by the clock of the log."""
    return shard.context.environment.clock.now_ns() // _NS_A_MS


def _run(shard: Shard, choose: Choose, builder: Builder) -> TieringStep | None:
    shard.guard.refuse_if_unusable()
    view = shard.snapshots.committed()
    try:
        plan = choose(shard, view)  # 1
        if plan is None:
            return None
        built = _built(shard, view, plan, builder)  # 2, 3
    finally:
        view.close()
    shard.commit_path.apply_change(partial(_change, plan, built))  # 4
    if plan.obsolete or built.parts:
        show_parts(shard, plan.obsolete, built.parts)
    discard_files(shard, plan.obsolete)  # 5
    if plan.blocks:
        shard.free(plan.blocks, plan.segments)
    return plan.report(built)  # 6


def _built(shard: Shard, view: ShardSnapshot, plan: Plan, builder: Builder) -> Built:
    directory = parts_directory(shard.context.directory)
    with ExitStack() as room:
        if not isinstance(plan.work, ProveWork):
            room.enter_context(taking_errors(directory, "parts cannot be built"))
            room.enter_context(room_for_parts(shard, view))
        built = builder(shard.context, view, plan.work)
        plan.check(built)
    return built


def _change(
    plan: Plan, built: Built, state: ShardState, _window_now: object
) -> tuple[Batch, ShardState]:
    batch = Batch()
    if plan.obsolete or built.parts:
        state = replace_parts(batch, state, plan.obsolete, built.parts)
    return batch, plan.change(batch, state, built)
