"""The streams of a root as SQL reads them: by their files, or as a server gives them.

PathStreams(root)             the files of this machine
ServedStreams(servers, …)     the same by calls of a server (served_streams.py)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Protocol

from storage_core.catalog.root_file import list_streams
from storage_core.parts.part_bytes import PartBytes
from storage_core.parts.part_home import has_part, opener_of
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.reader import StreamReader
from storage_core.sql.part_groups import SNAPSHOT_TRIES_MAX, PartGoneError
from storage_core.sql.stream_snapshot import StreamSnapshot, snapshot_of
from storage_core.verify.part_checks import part_difference


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """A part, and what opens its file, or raises FileNotFoundError."""

    part: Part
    opener: Callable[[], PartBytes]


class RootStreams(Protocol):
    """The streams of a root. Any thread."""

    def names(self) -> list[str]:
        """Return the names of all streams."""
        ...

    def snapshot(self, name: str) -> tuple[StreamSnapshot, Mapping[str, ReadablePart]]:
        """Return a snapshot of a stream, and its parts by path."""
        ...

    def parts(self, name: str) -> Iterator[ReadablePart]:
        """Yield the parts that a stream has now."""
        ...

    def has(self, readable: ReadablePart) -> bool:
        """Tell whether the file of a part is there."""
        ...

    def difference(self, readable: ReadablePart) -> str:
        """Read the file of a part; say what is wrong with it, nothing if all is well."""
        ...

    def interrupt(self) -> None:
        """Let calls of a server that are under way fail; from any thread, again and again."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class PathStreams:
    """The streams of a root of this machine."""

    def __init__(self, root: str | PathLike[str]) -> None:
        """Open nothing; the working directory may change afterwards."""
        self._root = Path(root).absolute()

    def names(self) -> list[str]:
        """Return the names of all streams."""
        return list_streams(self._root)

    def snapshot(self, name: str) -> tuple[StreamSnapshot, Mapping[str, ReadablePart]]:
        """Return a snapshot of a stream, and its parts by path."""
        with StreamReader.open(self._root, name) as reader:
            snapshot = _taken(reader)
            files = reader.rows.shards.files
        parts = {
            str(part.path): _readable(part)
            for shard, shard_parts in snapshot.shards.items()
            for part in listed_parts(shard, files.shard_directory(shard), shard_parts.entries)
        }
        return snapshot, parts

    def parts(self, name: str) -> Iterator[ReadablePart]:
        """Yield the parts that a stream has now."""
        with StreamReader.open(self._root, name) as reader:
            yield from map(_readable, reader.parts())

    def has(self, readable: ReadablePart) -> bool:
        """Tell whether the file of a part is there."""
        return has_part(readable.part)

    def difference(self, readable: ReadablePart) -> str:
        """Read the file of a part; say what is wrong with it, nothing if all is well."""
        return part_difference(readable.part)

    def interrupt(self) -> None:
        """There is no server."""

    def close(self) -> None:
        """Nothing is open."""


def _taken(reader: StreamReader) -> StreamSnapshot:
    """Return a snapshot of a stream; another one where a part of it was deleted meanwhile."""
    for _ in range(SNAPSHOT_TRIES_MAX - 1):
        try:
            return snapshot_of(reader)
        except PartGoneError:
            continue
    return snapshot_of(reader)


def _readable(part: Part) -> ReadablePart:
    return ReadablePart(part, opener_of(part))
