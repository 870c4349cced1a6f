"""The table of a stream compared with its part lists: `shardlog lake check`.

1. Load: the table, its files and what the store has of them.
2. Read: the part list of each shard, never older than the one that the table was made of.
3. Compare: each file's name, size and count of rows with its part; parts that have no file; the
   files of parts that are here, and whether the others can be read.
4. Read back, if wanted: each file whole, here and in the store. Its bytes have the digest that the
   part list, or its name, tells. Rows in the store are, by address, the visible ones of the parts,
   each once.
5. Of a stream that copies a topic: its heads runs cover what is published; read whole, if wanted.

Files that another program wrote are told wherever they lie, and compared with nothing.

A shard whose log cannot be read is a problem, and keeps no other from being compared; of it the
table's files are compared with the store alone.

What parts have that were merged, or are gone, since the last publish is no problem: the next one
brings the table along, and `pending` counts it. Nothing is changed, here or in the lake.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from storage_core.errors import UnavailableError
from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.image_names import image_of_path, is_image_path, whole_image_name
from storage_core.lake.maintenance.damaged_logs import log_problem
from storage_core.lake.maintenance.foreign_files import foreign_problems
from storage_core.lake.maintenance.heads import heads_problems
from storage_core.lake.maintenance.local_parts import parts_of_log
from storage_core.lake.maintenance.missing_parts import MissingParts
from storage_core.lake.maintenance.names import LakeFile, file_problems, missing_part
from storage_core.lake.maintenance.report import LakeCheck, LakeProblem
from storage_core.lake.maintenance.rows import RowCheck
from storage_core.lake.publish import target_of
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.publishing.lost_table import open_table
from storage_core.lake.publishing.mirror import (
    ShardListing,
    StepLimits,
    base_of,
    next_step,
)
from storage_core.lake.readable_shards import ReadableShards, readable_shards
from storage_core.lake.status import shard_status
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.parts.snapshot import listed_parts, parts_in
from storage_core.reader import StreamReader

# How often a shard is compared anew whose parts were deleted meanwhile.
_TRIES_MAX: Final = 5
_ALL: Final = StepLimits(parts=2**31, rows=2**63)


@dataclass(slots=True)
class _Compared:
    """What was compared so far."""

    files: int = 0
    rows: int = 0
    pending: int = 0
    problems: list[LakeProblem] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    unpublished: int = 0

    def add(self, other: "_Compared") -> None:
        """Count what was compared of another shard."""
        self.files += other.files
        self.rows += other.rows
        self.pending += other.pending
        self.problems += other.problems
        self.unchecked += other.unchecked


def check_lake(
    root: str | PathLike[str],
    name: str,
    target: LakeTarget | None = None,
    *,
    read: bool = False,
    on_rows: OnRows = ignore_rows,
) -> LakeCheck:
    """Compare the table of a stream with its part lists.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        target: Where its table is; if None where the stream's option `lake` says.
        read: Whether each file is read whole.
        on_rows: Called again and again with how many rows were read so far.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer, or parts are deleted all the time.
    """
    with readable_shards(root, name) as opened, TemporaryDirectory() as scratch:
        reader = opened.reader
        place = target or target_of(reader)
        table = open_table(reader, place)
        compared = _Compared()
        for shard in opened.shards:
            published = None if table is None else table.published(shard)
            status = opened.read(shard, partial(shard_status, reader, shard, published, 0))
            compared.unpublished += 0 if status is None else status.unpublished
        rows = RowCheck(table, Path(scratch), on_rows) if read and table is not None else None
        for shard in opened.shards:
            if table is not None:
                compared.add(_checked_shard(opened, table, shard, rows))
            compared.problems += log_problem(opened, table, shard, str(root))
        if table is not None:
            compared.problems[:0] = foreign_problems(table)
        return _report(place, table, compared, 0 if rows is None else rows.bytes_read)


def _report(
    place: LakeTarget, table: LakeTable | None, compared: _Compared, bytes_read: int
) -> LakeCheck:
    return LakeCheck(
        place.uri,
        None if table is None else table.version,
        compared.files,
        compared.rows,
        bytes_read,
        compared.unpublished,
        compared.pending,
        tuple(compared.problems),
        tuple(compared.unchecked),
    )


def _checked_shard(
    opened: ReadableShards, table: LakeTable, shard: int, rows: RowCheck | None
) -> _Compared:
    for _ in range(_TRIES_MAX):
        parts = opened.ask(shard, parts_in)
        try:
            if parts is None:
                return _compared_with_store(table, shard, rows)
            return _compared_once(opened.reader, table, shard, parts, rows)
        except FileNotFoundError:
            # A part was merged, or has expired, since the part list was read.
            table.reload()
    message = "parts are deleted faster than they are compared"
    raise UnavailableError(message, shard=shard)


def _compared_with_store(table: LakeTable, shard: int, rows: RowCheck | None) -> _Compared:
    """Compare the files of a shard whose part list cannot be read with what the store has."""
    compared = _Compared()
    files = _counted_files(table, shard, compared)
    compared.problems += file_problems(files, ())
    if rows is not None:
        stored = [file for file in files if file.stored is not None]
        compared.problems += rows.file_problems(stored)
    return compared


def _compared_once(
    reader: StreamReader, table: LakeTable, shard: int, parts: ShardParts, rows: RowCheck | None
) -> _Compared:
    """Compare one shard with a part list of it.

    Raises:
        FileNotFoundError: A part was deleted meanwhile.
    """
    compared = _Compared()
    files = _counted_files(table, shard, compared)
    published = table.published(shard)
    born = reader.born(shard)
    begin = born if published is None else published
    names = {file.path: file.name for file in files}
    listing = ShardListing(parts.entries, max(parts.sealed, born), born, begin, names)
    base = base_of(listing)
    compared.pending = _pending(listing)
    compared.problems += file_problems(files, parts.entries)
    if listing.sealed < begin:
        line = f"shard {shard}: [{listing.sealed}, {begin}): another owner has published it"
        compared.unchecked.append(line)
    bounds = AddressRange(base, max(base, min(begin, listing.sealed)))
    directory = reader.rows.shards.files.shard_directory(shard)
    below = [
        part
        for part in listed_parts(shard, directory, parts.entries)
        if part.entry.first < bounds.end and part.entry.last >= bounds.start
    ]
    compared.problems += _local_problems(reader, table, shard, parts.entries, read=rows is not None)
    stored = [file for file in files if file.stored is not None]
    lacking = MissingParts(parts, names, bounds)
    outcomes = lacking.among(below) if rows is None else rows.problems(stored, below, lacking)
    for outcome in outcomes:
        if isinstance(outcome, PartEntry):
            compared.problems.append(_nowhere(reader, shard, outcome, bounds))
        elif isinstance(outcome, str):
            compared.unchecked.append(outcome)
        else:
            compared.problems.append(outcome)
    if reader.origin is not None:
        scratch = None if rows is None else rows.scratch
        of_heads = AddressRange(born, max(born, begin))
        compared.problems += heads_problems(table, shard, of_heads, scratch)
    return compared


def _local_problems(
    reader: StreamReader,
    table: LakeTable,
    shard: int,
    entries: Sequence[PartEntry],
    *,
    read: bool,
) -> Iterator[LakeProblem]:
    """Yield what is wrong with the files of parts on this machine.

    Raises:
        FileNotFoundError: A part was deleted meanwhile.
    """
    named = table.files(shard)
    for local in parts_of_log(reader, table, shard, entries, read=read):
        # Of one that only the lake has its file is compared.
        is_told = not local.is_here and whole_image_name(shard, local.part.entry) in named
        if not local.is_well and not is_told:
            _refuse_deleted(reader, shard, local.part.entry)
            yield local.problem


def _refuse_deleted(reader: StreamReader, shard: int, entry: PartEntry) -> None:
    """Refuse to say of a part that was deleted meanwhile that it is missing.

    Raises:
        FileNotFoundError: It is no part any more.
    """
    if entry not in follower_of(reader, shard).parts().entries:
        raise FileNotFoundError(entry.file_name)


def _nowhere(
    reader: StreamReader, shard: int, entry: PartEntry, bounds: AddressRange
) -> LakeProblem:
    """Return the problem of a part whose file is neither here nor in the table.

    Raises:
        FileNotFoundError: It is no part any more.
    """
    _refuse_deleted(reader, shard, entry)
    return missing_part(shard, entry, entry.rows, bounds.end)


def _counted_files(table: LakeTable, shard: int, compared: _Compared) -> list[LakeFile]:
    files = list(_files_of(table, shard))
    compared.files = len(files)
    compared.rows = sum(file.rows or 0 for file in files)
    return files


def _files_of(table: LakeTable, shard: int) -> Iterator[LakeFile]:
    """Yield the files of a shard whose names say what they are."""
    sizes, rows, stored = table.files(shard), table.rows(shard), table.stored(shard)
    for path, size in sizes.items():
        if is_image_path(path):
            yield LakeFile(path, image_of_path(path), size, rows.get(path), stored.get(path))


def _pending(listing: ShardListing) -> int:
    """Return how many files the next publish adds or removes below what is published."""
    step = next_step(listing, _ALL)
    if step is None:
        return 0
    return len(step.removes) + sum(
        piece.end <= listing.begin for added in step.adds for piece in added.pieces
    )
