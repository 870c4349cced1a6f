"""Files of parts that have the same columns: an engine that has seen one of them has seen all.

A group is of one schema, so that an engine looks into no other file to know its columns, and its
columns show the same fields. Where no row of a file can have expired it has to read no column to
tell. A file never changes, and its
number is given once: its schema is read once by a process, from a foot that is proven.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import FileProof, PartEntry, ShardParts
from storage_core.read.parts import part_path, parts_directory
from storage_core.sealed.part_groups import passing_foot
from storage_core.sealed.part_values import fields_in

_SCHEMAS_MAX: Final = 1024
Fields = Mapping[str, Mapping[str, frozenset[int] | None]]


@dataclass(frozen=True, slots=True)
class FilesAlike:
    """Some files of parts.

    Attributes:
        schema: Their columns.
        fields: The fields that these show, by column.
        has_hidden: Whether rows of them may have expired, been taken by a cap, or been given up.
        paths: Them.
    """

    schema: pa.Schema
    fields: Fields
    has_hidden: bool
    paths: list[str] = field(default_factory=list)


def files_alike(
    shards: Iterable[tuple[Path, ShardParts, Sequence[Sequence[str]]]],
) -> list[FilesAlike]:
    """Return the files of parts by their columns.

    Args:
        shards: The directory and the parts of each, and the fields that parts can show of each of
            its schemas, by number.

    Raises:
        FileNotFoundError: One has gone.
        CorruptionError: One is damaged.
        InvalidRequestError: This process has no right to read one.
        UnavailableError: The system cannot read one now.
    """
    found: dict[object, FilesAlike] = {}
    for directory, parts, written in shards:
        shown: dict[object, Fields] = {}
        for one in parts.entries:
            path = part_path(parts_directory(directory), one)
            try:
                schema, numbers = _columns_of(path, one.proof)
            except CorruptionError as error:
                first, end = one.first, one.last + 1
                raise CorruptionError(error.message, path=path, start=first, end=end) from error
            if (schema, numbers) not in shown:
                of_part = {number: written[number] for number in numbers}
                shown[schema, numbers] = fields_in(schema.names, of_part)
            fields, hides = shown[schema, numbers], _may_hide(one, parts)
            alike = (schema, hides, _told_apart(fields))
            found.setdefault(alike, FilesAlike(schema, fields, hides)).paths.append(str(path))
    return list(found.values())


def _told_apart(fields: Fields) -> tuple[object, ...]:
    return tuple((column, *some.items()) for column, some in fields.items())


def _may_hide(part: PartEntry, parts: ShardParts) -> bool:
    """Tell whether a part may have rows that are not shown."""
    if part.is_flagged or part.primary_min < parts.floor or part.first < parts.cut:
        return True
    return any(gap.overlaps(part.first, part.last + 1) for gap in parts.gaps)


@lru_cache(maxsize=_SCHEMAS_MAX)
def _columns_of(path: Path, proof: FileProof) -> tuple[pa.Schema, tuple[int, ...]]:
    """Return the columns of a file that was published with this proof, and its schemas' numbers."""
    foot = passing_foot(path, proof)
    return foot.schema.remove_metadata(), foot.table.schemas
