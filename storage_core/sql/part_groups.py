"""Part files grouped by what an engine must know to read them.

Parts are grouped by schema, so that an engine reads one file of a group to know its columns, and
by whether rows can be hidden, since it need not read a column to filter the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.part_entry import ShardParts
from storage_core.parts.footer import footer_summary
from storage_core.parts.part_home import opener_of
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.parts.visible_rows import may_hide_rows

# How often a new snapshot is taken because a part was deleted.
SNAPSHOT_TRIES_MAX: Final = 5
PART_GONE: Final = "a part was deleted since the snapshot was taken; take a new one"


class PartGoneError(UnavailableError):
    """A part was deleted before it was opened; take a new snapshot."""


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Part files with one schema.

    Attributes:
        schema: Their columns.
        has_hidden: Whether some of their rows may be hidden.
        parts: The parts whose files they are.
    """

    schema: pa.Schema
    has_hidden: bool
    parts: list[Part] = field(default_factory=list)


def part_groups(shards: Iterable[tuple[int, Path, ShardParts]]) -> list[PartGroup]:
    """Return part files grouped by schema and by whether rows may be hidden.

    Args:
        shards: The number, the directory and the parts of each shard.

    Raises:
        FileNotFoundError: A file was deleted.
        CorruptionError: A file is damaged.
        InvalidRequestError: This process may not read a file.
        UnavailableError: The system cannot read a file now.
    """
    groups: dict[object, PartGroup] = {}
    for shard, directory, parts in shards:
        for part in listed_parts(shard, directory, parts.entries):
            entry, path = part.entry, part.path
            try:
                schema = footer_summary(path, entry.proof, opener_of(part)).schema
            except CorruptionError as error:
                first, end = entry.first, entry.last + 1
                raise CorruptionError(error.message, path=path, start=first, end=end) from error
            hides = may_hide_rows(entry, parts)
            groups.setdefault((schema, hides), PartGroup(schema, hides)).parts.append(part)
    return list(groups.values())


def damaged_part(stream: str, part: Part, text: str) -> CorruptionError:
    """Return the error of a part whose file is not what it should be."""
    return CorruptionError(
        text,
        stream=stream,
        shard=part.shard,
        path=part.path,
        start=part.entry.first,
        end=part.entry.last + 1,
    )
