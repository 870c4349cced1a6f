"""Compaction: neighbouring parts are merged into one, so that there are few, however many seals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry
from storage_core.format.window import WindowScheme
from storage_core.parts.footer import footer_summary
from storage_core.parts.part_home import opener_of
from storage_core.parts.snapshot import index_of, listed_part, parts_directory
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.build import build_here
from storage_core.tiering.limits import (
    COMPACTED_BYTES_MAX,
    COMPACTED_WINDOWS_MAX,
    NEIGHBOURS_MAX,
    STEP_BYTES_MAX,
    STEP_ROWS_MAX,
)
from storage_core.tiering.report import TieringStep
from storage_core.tiering.step import Plan, now_ms, put_new_generation, run_step
from storage_core.tiering.work import Builder, Built, CompactWork
from storage_core.write.shard import Shard

# Returns what the rows of a part take in memory.
DecodedBytes = Callable[[PartEntry], int]


def compact_shard(shard: Shard, builder: Builder = build_here) -> TieringStep | None:
    """Merge neighbouring parts into one, once; None if there are none to be merged.

    1. Choose: more than four neighbours of one level and value schema, late rows apart; as many as
       have at most a million rows in 64 MiB, which take 256 MiB in memory, and reach over at most
       two windows of time. Footers are read only of parts that may be merged by all else.
    2. Build: their files are compared with the digests that the part list has, their rows read and
       written as one part of the next level.
    3. Prove: as a seal does; and it has as many rows as they have, between the same addresses.
    4. Publish: its entry in the place of theirs, with a new generation, so that readers in other
       processes see the same.
    5. Free: their files go once they have stayed for `keep_replaced`, and no view in this process
       reads them.
    """
    return run_step(shard, _choose, builder)


def _choose(shard: Shard, view: ShardSnapshot) -> Plan | None:
    index = index_of(view)
    if shard.maintenance.compacted_parts is index:
        return None
    directory = parts_directory(shard.context.directory)
    decoded_bytes = partial(_decoded_bytes, view.shard, directory)
    parts = next_parts(index.entries, view.scheme, decoded_bytes)
    if not parts:
        shard.maintenance.compacted_parts = index
        return None
    return Plan(
        CompactWork(parts, view.state.parts, now_ms(shard), shard.options.lake is not None),
        check=partial(_refuse_short, view, parts, directory),
        change=put_new_generation,
        report=partial(_report, parts),
        obsolete=parts,
    )


def _report(parts: tuple[PartEntry, ...], built: Built) -> TieringStep:
    (merged,) = built.parts
    return TieringStep("compact", merged.first, merged.last + 1, merged.rows, built.parts, parts)


def next_parts(
    entries: Sequence[PartEntry], scheme: WindowScheme, decoded_bytes: DecodedBytes
) -> tuple[PartEntry, ...]:
    """Return the parts that are to be merged before any others; none if none are."""
    kinds: dict[tuple[str, bool], list[PartEntry]] = {}
    for part in entries:
        kinds.setdefault((part.kind, part.is_out_of_order), []).append(part)
    runs = (run for parts in kinds.values() if (run := _first_run(parts, scheme, decoded_bytes)))
    # Small ones first: what they become may be merged in turn.
    return min(runs, key=lambda run: (run[0].level, _place(run[0])), default=())


def _first_run(
    parts: Sequence[PartEntry], scheme: WindowScheme, decoded_bytes: DecodedBytes
) -> tuple[PartEntry, ...]:
    """Return the first neighbours that may be merged, of parts of one kind and flag."""
    first = 0
    while first < len(parts) - NEIGHBOURS_MAX:
        end = first + 1
        while end < len(parts) and _may_merge(parts[first : end + 1], scheme):
            end += 1
        if end - first > NEIGHBOURS_MAX:
            end = first + _fitting(parts[first:end], decoded_bytes)
        if end - first > NEIGHBOURS_MAX:
            return tuple(parts[first:end])
        first += 1
    return ()


def _fitting(parts: Sequence[PartEntry], decoded_bytes: DecodedBytes) -> int:
    """Return how many of some parts fit in memory together."""
    total = 0
    for count, part in enumerate(parts):
        total += decoded_bytes(part)
        if total > STEP_BYTES_MAX:
            return count
    return len(parts)


def _may_merge(parts: Sequence[PartEntry], scheme: WindowScheme) -> bool:
    if parts[-1].level != parts[0].level:
        return False
    if (
        sum(part.rows for part in parts) > STEP_ROWS_MAX
        or sum(part.size for part in parts) > COMPACTED_BYTES_MAX
    ):
        return False
    # Times of rows that came late lie anywhere; and others are in no order of time at all where
    # one part alone reaches over more.
    reach = max(COMPACTED_WINDOWS_MAX, *(_windows(part, scheme) for part in parts))
    return parts[0].is_out_of_order or _windows(_reaching(parts), scheme) <= reach


def _windows(part: PartEntry, scheme: WindowScheme) -> int:
    return scheme.of(part.primary_max) - scheme.of(part.primary_min) + 1


def _reaching(parts: Sequence[PartEntry]) -> PartEntry:
    """Return the first part as if it reached over all."""
    return replace(
        parts[0],
        last=max(part.last for part in parts),
        primary_min=min(part.primary_min for part in parts),
        primary_max=max(part.primary_max for part in parts),
    )


def _place(part: PartEntry) -> tuple[int, int]:
    return part.first, part.number


def _decoded_bytes(shard: int, directory: Path, part: PartEntry) -> int:
    try:
        listed = listed_part(shard, directory, part)
        return footer_summary(listed.path, part.proof, opener_of(listed)).decoded_bytes
    except (CorruptionError, FileNotFoundError):
        # Whoever is to merge it with others tells what is wrong.
        return 0


def _refuse_short(
    view: ShardSnapshot, parts: Sequence[PartEntry], directory: Path, built: Built
) -> None:
    """Refuse a part that does not have all rows of those it replaces, whoever built it.

    Raises:
        CorruptionError: It lacks some; of rows that were trimmed nobody else would have them.
    """
    (merged,) = built.parts
    first, end = parts[0].first, max(part.last for part in parts) + 1
    rows = sum(part.rows for part in parts)
    expected = (rows, first, end - 1, parts[0].kind, parts[0].is_out_of_order)
    if (merged.rows, merged.first, merged.last, merged.kind, merged.is_out_of_order) != expected:
        message = "a merged part does not have the rows of those it was built of; it is not used"
        raise CorruptionError(
            message,
            stream=view.stream,
            shard=view.shard,
            path=directory / merged.file_name,
            start=first,
            end=end,
        )
