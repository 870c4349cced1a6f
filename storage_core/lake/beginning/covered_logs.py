"""Archived logs that go: the log in force has all of their rows, and so has the table.

A root that loses a partition and gets it again begins its shard from the table each time, and
archives the log that it had. What that has of the partition others have too, or store it once more,
since an address is an offset of the source; so it is marked as a copy. Once the shard is published
up to its end, the addresses of its rows and dead letters are compared with those of the log in
force, as reads show them:

    all are there      it is removed
    some are not       the mark goes, and it stays until somebody removes it: nobody else has them
    it cannot be told  it stays: until the next publish, or for good where its store is damaged

While neither this machine nor the store has a part of the log in force, none goes: an archived log
may have the only copy. What the store has is compared by name and size alone, so a file of a part
that is in the store and in an archived log takes its place in the log in force before that goes. A
log that a reset archived has no mark, nor has one whose marker did not tell for sure how far it
goes. The comparison is made once, and reads addresses alone.

A dead letter that was sent or discarded since keeps an archived log that has it still: nobody can
tell that from one which is lost.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage_core.catalog.archived_shard import ArchivedShard
from storage_core.catalog.archived_shards import (
    archived_copies,
    is_going,
    remove_archived_logs,
    unmark_copy,
)
from storage_core.engine.left_config import has_store
from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry
from storage_core.lake.absent.local_files import link_local
from storage_core.lake.maintenance.local_parts import parts_of_log
from storage_core.lake.repair.part_copies import PartCopies
from storage_core.lake.table import LakeTable
from storage_core.platform.durable_file import reading_errors
from storage_core.read.request import ReadRequest
from storage_core.read.shard_reader import ShardReader
from storage_core.reader import StreamReader

# So many addresses are compared at once.
_ROWS_AT_ONCE: Final = 2**18
Int64s = npt.NDArray[np.int64]


def remove_covered_logs(
    reader: StreamReader,
    table: LakeTable,
    shard: int,
    entries: Sequence[PartEntry],
    on_progress: Callable[[], None],
) -> tuple[int, int]:
    """Remove the archived copies of a shard whose rows the log in force has.

    Args:
        reader: The stream, opened by the path of its root.
        table: Its table, loaded, in its own lake.
        shard: The shard's number.
        entries: The part list of the log in force.
        on_progress: Called again and again while rows are compared.

    Returns:
        How many went, and how many stay from now on, as they alone have some rows or dead letters.

    Raises:
        UnavailableError: Rows cannot be read now, or the disk refuses.
        ForeignDataError: Another log is in the place of one.
    """
    files = reader.rows.shards.files
    root, name = files.directory.parent, files.meta.name
    published = table.published(shard) or 0
    copies = [one for one in archived_copies(root, name, shard) if one[0].end <= published]
    if not copies:
        return 0, 0
    # What a read has of them in its cache is no copy.
    parts = list(parts_of_log(reader, table, shard, entries, read=False))
    if not all(part.is_well for part in parts):
        return 0, 0
    covered: list[str] = []
    staying: list[Path] = []
    for log, place in copies:
        if is_going(place) or _is_covered(reader, log, place, on_progress):
            covered.append(log.lineage)
        else:
            staying.append(place)
    removed = 0
    if covered:
        archived = PartCopies(root, name, ())
        for local in parts:
            copy = None if local.is_here else archived.proven(local.part)
            if copy is not None:
                link_local(reader, local.part, copy)
                on_progress()
        removed = len(remove_archived_logs(root, name, covered))
    # Once all is done: who fails before that judges them again, and tells of them then.
    for place in staying:
        unmark_copy(place)
    return removed, len(staying)


def _is_covered(
    reader: StreamReader, log: ArchivedShard, place: Path, on_progress: Callable[[], None]
) -> bool:
    """Tell whether the log in force has a row at each address where an archived one shows one."""
    with reading_errors(place, "looking for the store of an archived log"):
        if not has_store(place):
            # One that was never opened has no row; another one may have had some.
            return log.end == log.born
    files = reader.rows.shards.files
    root, name = files.directory.parent, files.meta.name
    in_force = reader.shard(log.shard)
    state = in_force.state()
    rows = ReadRequest(log.shard, start=state.floor, columns=("address",), order="arrival")
    try:
        with StreamReader.open(root, name, archived=log.lineage) as archived:
            visible = replace(rows, start_address=state.cut, end_address=max(log.end, state.cut))
            for addresses in _addresses(archived, visible):
                if len(_beside_rows(addresses, reader, rows)):
                    return False
                on_progress()
            for addresses in _dead_letters(archived.shard(log.shard), log.born, log.end):
                first, last = int(addresses.min()), int(addresses.max())
                left = _beside(addresses, _dead_letters(in_force, first, last + 1))
                if len(left) and len(_beside_rows(left, reader, rows)):
                    return False
                on_progress()
    except CorruptionError:
        # What is damaged in one of them nobody can compare.
        return False
    return True


def _beside_rows(addresses: Int64s, reader: StreamReader, rows: ReadRequest) -> Int64s:
    """Return those of some addresses at which the log in force shows no row."""
    first, last = int(addresses.min()), int(addresses.max())
    of_these = replace(rows, start_address=first, end_address=last + 1)
    return _beside(addresses, _addresses(reader, of_these))


def _beside(addresses: Int64s, others: Iterator[Int64s]) -> Int64s:
    """Return those of some addresses that are not among others."""
    while len(addresses) and (some := next(others, None)) is not None:
        addresses = addresses[~np.isin(addresses, some)]
    return addresses


def _dead_letters(shard: ShardReader, start: int, end: int) -> Iterator[Int64s]:
    """Yield the addresses of dead letters, some at a time."""
    waiting = (address for address, _ in shard.dead_letters(start, end))
    while len(addresses := np.fromiter(islice(waiting, _ROWS_AT_ONCE), np.int64)):
        yield addresses


def _addresses(reader: StreamReader, request: ReadRequest) -> Iterator[Int64s]:
    """Yield the addresses of rows, some batches at a time."""
    waiting: list[Any] = []
    for batch in reader.shard(request.shard).scan(request):
        waiting.append(batch.column("address").to_numpy())
        if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
            yield np.concatenate(waiting)
            waiting.clear()
    if waiting and sum(map(len, waiting)):
        yield np.concatenate(waiting)
