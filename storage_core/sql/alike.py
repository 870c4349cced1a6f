"""Files of parts that have the same columns: an engine that has seen one of them has seen all.

A group is of one schema, so that an engine looks into no other file to know its columns. Where no
row of a file can have expired it has to read no column to tell. A file never changes, and its
number is given once: its schema is read once by a process, from a foot that is proven.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import FileProof, ShardParts
from storage_core.parts.row_groups import passing_foot
from storage_core.parts.snapshot import part_path, parts_directory
from storage_core.parts.visible_rows import may_hide_rows

_SCHEMAS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class FilesAlike:
    """Some files of parts.

    Attributes:
        schema: Their columns.
        has_hidden: Whether some of their rows may be hidden.
        paths: Them.
    """

    schema: pa.Schema
    has_hidden: bool
    paths: list[str] = field(default_factory=list)


def files_alike(shards: Iterable[tuple[Path, ShardParts]]) -> list[FilesAlike]:
    """Return the files of parts by their columns.

    Args:
        shards: The directory and the parts of each.

    Raises:
        FileNotFoundError: One has gone.
        CorruptionError: One is damaged.
        InvalidRequestError: This process has no right to read one.
        UnavailableError: The system cannot read one now.
    """
    found: dict[object, FilesAlike] = {}
    for directory, parts in shards:
        for one in parts.entries:
            path = part_path(parts_directory(directory), one)
            try:
                schema = _columns_of(path, one.proof)
            except CorruptionError as error:
                first, end = one.first, one.last + 1
                raise CorruptionError(error.message, path=path, start=first, end=end) from error
            hides = may_hide_rows(one, parts)
            alike = found.setdefault((schema, hides), FilesAlike(schema, hides))
            alike.paths.append(str(path))
    return list(found.values())


@lru_cache(maxsize=_SCHEMAS_MAX)
def _columns_of(path: Path, proof: FileProof) -> pa.Schema:
    """Return the columns of a file that was published with this proof."""
    return passing_foot(path, proof).schema.remove_metadata()
