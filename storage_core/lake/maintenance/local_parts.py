"""The files of a shard's parts on this machine, beside what its table's store has of them.

A part whose file is not here is no damage where the store has it as it lies: reads bring what they
need of it. Where the table has its rows in another form alone, no read finds them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storage_core.format.part_entry import PartEntry
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.table import LakeTable
from storage_core.parts.part_home import is_here
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.reader import StreamReader
from storage_core.verify.part_checks import difference

_NOWHERE = "is missing, and the lake has no file of it as it lies"


@dataclass(frozen=True, slots=True)
class LocalPart:
    """A part, and where it can be had.

    Attributes:
        part: The part.
        damage: What is wrong with its file here; nothing where it is well, or not here.
        is_here: Whether there is a file here, damaged or not.
        is_in_store: Whether the store has a file of its name and size.
    """

    part: Part
    damage: str
    is_here: bool
    is_in_store: bool

    @property
    def is_well(self) -> bool:
        """Whether a read finds its rows, as far as one has looked."""
        return not self.damage if self.is_here else self.is_in_store

    @property
    def problem(self) -> LakeProblem:
        """Return what is wrong with it."""
        entry = self.part.entry
        message = f"the part's file on this machine {self.damage or _NOWHERE}"
        shard, end = self.part.shard, entry.last + 1
        return LakeProblem(shard, entry.first, end, "part", message, entry.file_name)


def parts_of_log(
    reader: StreamReader, table: LakeTable, shard: int, entries: Iterable[PartEntry], *, read: bool
) -> Iterator[LocalPart]:
    """Yield the parts of a shard, and where each can be had.

    Args:
        reader: The stream, opened by the path of its root.
        table: Its table; where that is not in the stream's own lake, parts that are not here are
            left out, since reads do not look there.
        shard: The shard.
        entries: Its part list.
        read: Whether each file here is read whole; else its size is compared.

    Raises:
        InvalidRequestError: This process has no right to read one.
        UnavailableError: One cannot be read now, or the store does not answer.
    """
    is_own = table.target.is_lake_of(reader.options.lake)
    stored = table.stored(shard)
    for part in listed_parts(shard, reader.rows.shards.files.shard_directory(shard), entries):
        is_there = is_here(part)
        if is_there or is_own:
            is_in_store = stored.get(whole_image_name(shard, part.entry)) == part.entry.size
            damage = difference(part.path, part.entry, reads=read) if is_there else ""
            yield LocalPart(part, damage, is_there, is_in_store)
