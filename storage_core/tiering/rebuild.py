"""Rebuilding: builds a part whose file is damaged or gone again, of the rows in the log."""

from collections import deque
from contextlib import suppress
from functools import partial

from storage_core.errors import CorruptionError, LostRangeError
from storage_core.format.part_entry import PartEntry
from storage_core.parts.part_home import absent_parts
from storage_core.parts.snapshot import index_of, listed_part, parts_directory
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.build import build_here
from storage_core.tiering.report import TieringStep
from storage_core.tiering.step import Plan, now_ms, put_new_generation, run_step
from storage_core.tiering.work import Built, RebuildWork
from storage_core.verify.part_checks import part_difference
from storage_core.write.shard import Shard


def rebuild_parts(shard: Shard) -> list[TieringStep]:
    """Build the parts again whose files are not as they were published; durable on return.

    1. Choose: compare the file of each part with the digest that the part list has of it.
    2. Build: of each that differs a new file, with a number of its own, of the rows that the log
       has of its value schema between its addresses.
    3. Prove: as a seal does.
    4. Publish: the new entry in the place of the old one, with a new generation. A part of which
       every row has expired is only removed.
    5. Free: what is left of the old file, as a compaction does.

    One part after the other.

    Raises:
        LostRangeError: The log has lost rows of one too, or they were trimmed; it stays as it is,
            its trimmed blocks are lost from now on, and those before it are rebuilt.
        CorruptionError: The same of one that the lake has: nothing of it is lost.
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    view = shard.snapshots.committed()
    try:
        entries = index_of(view).entries
    finally:
        view.close()
    steps: list[TieringStep] = []
    for part in entries:
        try:
            step = run_step(shard, partial(_choose, part), build_here)
        except LostRangeError as error:
            _refuse_if_in_lake(shard, part, error)
            shard.guard.maintain(partial(_note_trimmed, shard, part))
            raise
        if step is not None:
            steps.append(step)
    return steps


def _refuse_if_in_lake(shard: Shard, part: PartEntry, error: LostRangeError) -> None:
    """Refuse to take rows for lost that the lake has.

    Raises:
        CorruptionError: It has the part.
        ShardlogError: It cannot be asked now.
    """
    listed = listed_part(shard.context.number, parts_directory(shard.context.directory), part)
    elsewhere = absent_parts(listed)
    if elsewhere is None or not elsewhere.has(listed):
        return
    message = (
        "the log has no more the rows of a damaged part, and the lake has its file: "
        "`shardlog lake repair` brings it"
    )
    raise CorruptionError(
        message,
        stream=error.stream,
        shard=listed.shard,
        path=listed.path,
        start=part.first,
        end=part.last + 1,
    ) from error


def _choose(part: PartEntry, shard: Shard, view: ShardSnapshot) -> Plan | None:
    directory = parts_directory(shard.context.directory)
    # One that the lake has needs no blocks.
    damage = part_difference(listed_part(view.shard, directory, part), reads_lake=False)
    if not damage or part not in index_of(view).entries:
        return None
    return Plan(
        RebuildWork(part, view.state.parts, now_ms(shard), shard.options.lake is not None),
        check=lambda _: None,
        change=put_new_generation,
        report=partial(_report, part, damage),
        obsolete=(part,),
    )


def _report(part: PartEntry, damage: str, built: Built) -> TieringStep:
    rows = sum(rebuilt.rows for rebuilt in built.parts)
    return TieringStep(
        "rebuild", part.first, part.last + 1, rows, built.parts, (part,), damage=damage
    )


def _note_trimmed(shard: Shard, part: PartEntry) -> None:
    """Record the trimmed blocks that only a damaged part could rebuild as lost.

    No read does: the file may come back. Whoever rebuilds wants to go on without it.
    """
    view = shard.snapshots.committed()
    try:
        end = min(part.last + 1, view.state.trimmed)
        for zone in view.zones(max(part.first, view.state.start), end):
            with suppress(CorruptionError):
                deque(view.pieces(zone, part.first, part.last + 1), maxlen=0)
    finally:
        view.close()
    shard.note_lost(view.gone_with_parts, with_parts=True)
