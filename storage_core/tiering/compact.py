"""Compaction: neighbouring parts become one, so that there are few, however many seals."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from storage_core.engine.key_value import Batch
from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry, part_file_name
from storage_core.format.shard_state import (
    KEY_GENERATION,
    ShardState,
    encode_int,
    generation_after,
)
from storage_core.format.window import WindowScheme
from storage_core.parts.footer import footer_summary
from storage_core.parts.part_list import replace_parts
from storage_core.parts.progress import BUILD_PASSES, RowProgress
from storage_core.platform.durable_file import taking_errors
from storage_core.read.cold.part_index import PartIndex
from storage_core.read.cold.parts import index_of, part_path, parts_directory
from storage_core.read.view import ShardView
from storage_core.retention.exclusive import alone
from storage_core.tiering.compact_report import Compacted, Rewritten
from storage_core.tiering.making import made_here
from storage_core.tiering.part_work import JoinWork, Maker
from storage_core.tiering.replaced import clear, cleared_on_failure, let_go, sweep_due
from storage_core.tiering.visible_files import prepared_directory, show_parts
from storage_core.write.shard import Shard

ROWS_MAX: Final = 1_000_000
BYTES_MAX: Final = 64 * 2**20
# What their rows take in memory, however well the files are compressed: as many as a seal takes.
DECODED_MAX: Final = 256 * 2**20
# More neighbours of a level than these become one of the next.
FEW: Final = 4
# So many windows a joined part may reach over: it goes once all of them have expired.
_WINDOWS_MAX: Final = 2
_NS_A_MS: Final = 1_000_000
# The catalogues in which nothing is to be joined: a turn of maintenance comes every few seconds.
_WHOLE: Final[WeakKeyDictionary[Shard, PartIndex]] = WeakKeyDictionary()
# What the rows of parts take in memory, by the number of each that was looked at.
_DECODED: Final[WeakKeyDictionary[Shard, dict[int, int]]] = WeakKeyDictionary()
# Tells what the rows of a part take in memory.
Decoded = Callable[[PartEntry], int]


def compact_shard(shard: Shard, maker: Maker = made_here) -> Compacted | None:
    """Let neighbouring parts become one, once; durable on return. None if there is nothing to join.

    1. Choose: more than four neighbours of one level, kind and flag; as many as have at most a
       million rows in 64 MiB, which take 256 MiB in memory, and reach over at most two windows of
       time. Files are asked for that only of parts that may be joined by all else.
    2. Make: their files are compared with the digests that the catalogue has, their rows read and
       written as one part of the next level; the file is synced and proven as a seal's is, and
       has as many rows as they have, between the same addresses.
    3. Publish: its entry in the place of theirs, in one WriteBatch; sync; write the marker with a
       new generation, so that readers in other processes see the same. Where the stream was last
       written by programs that gave parts no table of chunks it names the feature, durably, before.
    4. Show: the file gets the name that other programs see, and theirs lose it
       (visible_files.py).
    5. Free: their files go once they have stayed for `keep_replaced`, and no view in this process
       reads them.

    A crash before 3 leaves a file that the next sweep removes, one behind it theirs, which it
    removes too. Appends, commits and reads go on beside all of it.

    Raises:
        CorruptionError: The file of one is damaged or gone, or what is made of them lacks rows; all
            stay as they are.
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return alone(shard, lambda: _compact(shard, maker))


def compact_all(
    shards: Iterable[Shard], progress: Rewritten | None
) -> dict[int, tuple[Compacted, ...]]:
    """Join what there is to join in some shards; tell again and again how many rows are done."""
    done: dict[int, tuple[Compacted, ...]] = {}
    rows = RowProgress(progress, BUILD_PASSES)
    make = partial(made_here, on_rows=rows.on_rows)
    for shard in shards:
        steps: list[Compacted] = []
        while (step := compact_shard(shard, make)) is not None:
            steps.append(step)
            rows.end_step(step.successor.rows)
        sweep_due(shard)
        done[shard.context.number] = tuple(steps)
    return done


def next_group(
    entries: Sequence[PartEntry], scheme: WindowScheme, decoded: Decoded
) -> tuple[PartEntry, ...]:
    """Return the parts that are to become one before any others; none if none are."""
    kinds: dict[tuple[str, bool], list[PartEntry]] = {}
    for part in entries:
        kinds.setdefault((part.kind, part.is_flagged), []).append(part)
    found = (group for parts in kinds.values() if (group := _first_group(parts, scheme, decoded)))
    # Small ones first: what they become may be joined in turn.
    return min(found, key=lambda group: (group[0].level, _place(group[0])), default=())


def _first_group(
    parts: Sequence[PartEntry], scheme: WindowScheme, decoded: Decoded
) -> tuple[PartEntry, ...]:
    """Return the first neighbours that may become one, of parts of one kind and flag."""
    first = 0
    while first < len(parts) - FEW:
        end = first + 1
        while end < len(parts) and _may_join(parts[first : end + 1], scheme):
            end += 1
        if end - first > FEW:
            end = first + _fitting(parts[first:end], decoded)
        if end - first > FEW:
            return tuple(parts[first:end])
        first += 1
    return ()


def _fitting(parts: Sequence[PartEntry], decoded: Decoded) -> int:
    """Return how many of some parts fit in memory together."""
    total = 0
    for count, part in enumerate(parts):
        total += decoded(part)
        if total > DECODED_MAX:
            return count
    return len(parts)


def _decoded_in(shard: Shard, index: PartIndex, directory: Path) -> Decoded:
    """Return what tells the memory of a shard's parts; it looks at the foot of each file once."""
    before = _DECODED.get(shard, {})
    known = {one.number: before[one.number] for one in index.entries if one.number in before}
    _DECODED[shard] = known

    def decoded(part: PartEntry) -> int:
        if part.number not in known:
            try:
                footer = footer_summary(part_path(directory, part), part.proof)
                known[part.number] = footer.decoded_bytes
            except (CorruptionError, FileNotFoundError):
                # Whoever is to join it with others tells what is wrong.
                return 0
        return known[part.number]

    return decoded


def _may_join(parts: Sequence[PartEntry], scheme: WindowScheme) -> bool:
    if parts[-1].level != parts[0].level:
        return False
    if sum(part.rows for part in parts) > ROWS_MAX or sum(part.size for part in parts) > BYTES_MAX:
        return False
    # Times of rows that came late lie anywhere; and others are in no order of time at all where
    # one part alone reaches over more.
    reach = max(_WINDOWS_MAX, *(_windows(part, scheme) for part in parts))
    return parts[0].is_flagged or _windows(_reaching(parts), scheme) <= reach


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


def _compact(shard: Shard, maker: Maker) -> Compacted | None:
    shard.guard.refuse_if_unusable()
    directory = parts_directory(shard.context.directory)
    view = shard.views.committed()
    try:
        index = index_of(view)
        if _WHOLE.get(shard) is index:
            return None
        decoded = _decoded_in(shard, index, directory)
        group = next_group(index.entries, view.scheme, decoded)  # 1
        if not group:
            _WHOLE[shard] = index
            return None
        with taking_errors(directory, "parts cannot be joined"):
            prepared_directory(shard)
            number = view.state.parts
            now_ms = shard.context.environment.clock.now_ns() // _NS_A_MS
            clear(shard, directory / part_file_name(number))
            with cleared_on_failure(shard, view):
                (joined,) = maker(shard.context, view, JoinWork(group, number, now_ms)).parts  # 2
                _refuse_short(view, group, joined, directory)
    finally:
        view.close()
    shard.take_away(partial(_replaced, group, joined))  # 3
    show_parts(shard, group, [joined])  # 4
    let_go(shard, [directory / part.file_name for part in group])  # 5
    return Compacted(group, joined)


def _refuse_short(
    view: ShardView, group: Sequence[PartEntry], joined: PartEntry, directory: Path
) -> None:
    """Refuse a part that is not of all rows of a group, whoever made it.

    Raises:
        CorruptionError: It lacks some; of rows that were trimmed nobody else would have them.
    """
    first, end = group[0].first, max(part.last for part in group) + 1
    facts = joined.rows, joined.first, joined.last, joined.kind, joined.is_flagged
    rows = sum(part.rows for part in group)
    if facts != (rows, first, end - 1, group[0].kind, group[0].is_flagged):
        message = "a joined part does not have the rows of those it was made of; it is not used"
        raise CorruptionError(
            message,
            stream=view.stream,
            shard=view.shard,
            path=directory / joined.file_name,
            start=first,
            end=end,
        )


def _replaced(
    group: Sequence[PartEntry], joined: PartEntry, state: ShardState, _window_now: object
) -> tuple[Batch, ShardState]:
    batch = Batch()
    after = replace_parts(batch, state, group, [joined])
    after = replace(after, generation=generation_after(state.generation))
    batch.put(KEY_GENERATION, encode_int(after.generation))
    return batch, after
