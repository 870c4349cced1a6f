"""A shard's files in a table beside its part list: compared by names, sizes and counts of rows.

Pure. What a file holds is told by its name, how many rows by the table, its bytes by the store.
A part that has files has all its visible rows in them; one that has none, while no file of parts
that were merged into it has its addresses, has no visible row, or its rows are missing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storage_core.format.part_entry import PartEntry
from storage_core.lake.image_names import ImageName
from storage_core.lake.maintenance.report import LakeFault, LakeProblem


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file that the table names.

    Attributes:
        path: Its path below the table.
        name: What its name says.
        size: How many bytes it has by the table.
        rows: How many rows it has by the table; None where that does not say.
        stored: How many bytes the store has; None where it has no such file.
    """

    path: str
    name: ImageName
    size: int
    rows: int | None
    stored: int | None

    def problem(self, kind: LakeFault, message: str) -> LakeProblem:
        """Return a problem of this file."""
        name = self.name
        return LakeProblem(name.shard, name.first, name.last + 1, kind, message, self.path)


def file_problems(files: Iterable[LakeFile], entries: Iterable[PartEntry]) -> Iterator[LakeProblem]:
    """Yield what is wrong with files as the store has them, and beside their parts."""
    by_digest = {entry.digest.hex(): entry for entry in entries}
    for file in files:
        if file.stored is None:
            yield file.problem("gone", "the store has no such file")
        elif file.stored != file.size:
            message = f"the store has {file.stored:,} bytes of {file.size:,}"
            yield file.problem("size", message)
        entry = by_digest.get(file.name.entry_digest)
        if entry is not None:
            yield from _beside_part(file, entry)


def _beside_part(file: LakeFile, entry: PartEntry) -> Iterator[LakeProblem]:
    name = file.name
    is_inside = entry.first <= name.first and name.last <= entry.last
    is_whole = name.rewritten_digest is None
    if not is_inside or (is_whole and (name.first, name.last) != (entry.first, entry.last)):
        message = f"its part has the addresses [{entry.first}, {entry.last + 1})"
        yield file.problem("name", message)
    if is_whole and file.size != entry.size:
        yield file.problem("size", f"it has {file.size:,} bytes, its part {entry.size:,}")
    if file.rows is None:
        return
    if file.rows > entry.rows or (is_whole and file.rows != entry.rows):
        message = f"the table counts {file.rows:,} rows of {entry.rows:,} of its part"
        yield file.problem("rows", message)


def missing_part(shard: int, entry: PartEntry, rows: int, begin: int) -> LakeProblem:
    """Return the problem of a part whose rows the table lacks."""
    message = f"the table has nothing of {entry.file_name}, which has {rows:,} visible rows there"
    return LakeProblem(shard, entry.first, min(entry.last + 1, begin), "missing", message, None)
