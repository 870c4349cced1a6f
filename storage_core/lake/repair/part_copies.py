"""Copies of parts in other places: archived logs of a stream, and other roots that have it.

A copy is told by its digest alone, whatever log it lies in and whatever state that is in: a root
from whose table this one began, and a backup of either, have the same files.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from storage_core.catalog.archived_shard import log_name, shard_name
from storage_core.errors import InvalidRequestError
from storage_core.format.part_entry import PART_FILES, PartEntry
from storage_core.parts.part_proof import digest_of
from storage_core.parts.snapshot import Part, parts_directory
from storage_core.platform.durable_file import reading_errors

_ARCHIVE: Final = "~archived"
_READ_BYTES: Final = 4 * 2**20


class PartCopies:
    """Files of parts in directories of streams. One thread."""

    def __init__(self, root: Path, name: str, others: Iterable[Path]) -> None:
        """Look at no file yet.

        Args:
            root: The root of the stream, whose archived logs count.
            name: The stream.
            others: Other roots.

        Raises:
            InvalidRequestError: Another root does not have the stream.
        """
        self._streams = [root / name]
        for other in others:
            if not (other / name).is_dir():
                message = f"there is no stream {name!r} in this root, whose parts could be taken"
                raise InvalidRequestError(message, path=other)
            self._streams.append(other / name)
        self._by_size: dict[int, dict[int, list[Path]]] = {}

    def find(self, part: Part) -> Path | None:
        """Return a file that has a part whole; None if there is none.

        Raises:
            InvalidRequestError: This process has no right to read there.
            UnavailableError: A disk refuses.
        """
        if part.shard not in self._by_size:
            self._by_size[part.shard] = self._sizes(part.shard)
        for path in self._by_size[part.shard].get(part.entry.size, ()):
            if path != part.path and _has(path, part.entry):
                return path
        return None

    def _sizes(self, shard: int) -> dict[int, list[Path]]:
        sizes: dict[int, list[Path]] = {}
        for path in self._files(shard):
            with reading_errors(path, "looking for copies of parts"):
                sizes.setdefault(path.stat().st_size, []).append(path)
        return sizes

    def _files(self, shard: int) -> Iterator[Path]:
        for stream in self._streams:
            for place in (stream, stream / _ARCHIVE):
                for log in (shard_name(shard), log_name(shard, "*")):
                    for directory in sorted(place.glob(log)):
                        yield from sorted(parts_directory(directory).glob(PART_FILES))


def bytes_of(path: Path) -> Iterator[bytes]:
    """Yield a file in pieces.

    Raises:
        InvalidRequestError: This process has no right to read it.
        UnavailableError: The disk refuses.
    """
    with reading_errors(path, "reading a copy of a part"), path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            yield data


def _has(path: Path, entry: PartEntry) -> bool:
    with reading_errors(path, "reading a copy of a part"):
        try:
            return digest_of(path) == entry.digest
        except FileNotFoundError:
            # Its owner has merged it meanwhile.
            return False
