"""Files of parts that have the same columns: an engine that has seen one of them has seen all.

A group is of one schema, so that an engine looks into no other file to know its columns. Where no
row of a file can have expired it has to read no column to tell. The columns are those that the
file's footer has, which is proven and cached (storage_core/parts/footer.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import ShardParts
from storage_core.parts.footer import footer_summary
from storage_core.parts.visible_rows import may_hide_rows
from storage_core.read.cold.parts import part_path, parts_directory


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
                schema = footer_summary(path, one.proof).schema
            except CorruptionError as error:
                first, end = one.first, one.last + 1
                raise CorruptionError(error.message, path=path, start=first, end=end) from error
            hides = may_hide_rows(one, parts)
            alike = found.setdefault((schema, hides), FilesAlike(schema, hides))
            alike.paths.append(str(path))
    return list(found.values())
