"""Copies of parts in other places: archived logs of a stream, and other roots that have it.

A copy is told by its digest alone, whatever log it lies in and whatever state that is in: a root
from whose table this one began, and a backup of either, have the same files.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from storage_core.catalog.archived_shard import log_name, shard_name
from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.part_entry import PART_FILES, PartEntry
from storage_core.parts.snapshot import Part, parts_directory
from storage_core.platform import xxh3
from storage_core.platform.durable_file import reading_errors

_ARCHIVE: Final = "~archived"
_READ_BYTES: Final = 4 * 2**20
_LOOKING: Final = "looking for copies of parts"


class PartCopies:
    """Files of parts in directories of streams. One thread."""

    def __init__(self, root: Path, name: str, others: Iterable[Path]) -> None:
        """Look at no file yet.

        Args:
            root: The root of the stream, whose archived logs count.
            name: The stream.
            others: Other roots.

        Raises:
            InvalidRequestError: Another root does not have the stream, or this process has no right
                to read there.
            UnavailableError: A disk refuses.
        """
        self._streams = [root / name]
        for other in others:
            with reading_errors(other, _LOOKING):
                has_stream = (other / name).is_dir()
            if not has_stream:
                message = f"there is no stream {name!r} in this root, whose parts could be taken"
                raise InvalidRequestError(message, path=other)
            self._streams.append(other / name)
        self._by_size: dict[int, dict[int, list[Path]]] = {}

    def candidates(self, part: Part) -> Iterator[Path]:
        """Yield the files that may be copies of a part, by their size.

        Raises:
            InvalidRequestError: This process has no right to read there.
            UnavailableError: A disk refuses.
        """
        if part.shard not in self._by_size:
            self._by_size[part.shard] = self._sizes(part.shard)
        for path in self._by_size[part.shard].get(part.entry.size, ()):
            if path != part.path:
                yield path

    def proven(self, part: Part) -> Path | None:
        """Return a file that was read whole and has the digest of a part; None if there is none.

        Raises:
            InvalidRequestError: This process has no right to read there.
            UnavailableError: A disk refuses.
        """
        for path in self.candidates(part):
            with suppress(CorruptionError):
                deque(bytes_of(path, part.entry), maxlen=0)
                return path
        return None

    def _sizes(self, shard: int) -> dict[int, list[Path]]:
        sizes: dict[int, list[Path]] = {}
        for path in self._files(shard):
            # Its owner may have merged it meanwhile.
            with reading_errors(path, _LOOKING), suppress(FileNotFoundError):
                status = path.stat()
                if S_ISREG(status.st_mode):
                    sizes.setdefault(status.st_size, []).append(path)
        return sizes

    def _files(self, shard: int) -> Iterator[Path]:
        for stream in self._streams:
            for place in (stream, stream / _ARCHIVE):
                for log in _entries(place, shard_name(shard), log_name(shard, "*")):
                    yield from _entries(parts_directory(log), PART_FILES)


def _entries(directory: Path, *patterns: str) -> list[Path]:
    """Return what a directory has of some names, in order; nothing where there is none.

    Raises:
        InvalidRequestError: This process has no right to read there.
        UnavailableError: The disk refuses.
    """
    # NOTE: `Path.glob` takes what may not be read for empty.
    with reading_errors(directory, _LOOKING), suppress(FileNotFoundError, NotADirectoryError):
        return sorted(
            entry
            for entry in directory.iterdir()
            if any(fnmatchcase(entry.name, pattern) for pattern in patterns)
        )
    return []


def bytes_of(path: Path, entry: PartEntry) -> Iterator[bytes]:
    """Yield a file in pieces, none of which is proven before the last one.

    Raises:
        CorruptionError: It differs from the part list; raised behind the last piece. Or its owner
            has merged it meanwhile.
        InvalidRequestError: This process has no right to read it.
        UnavailableError: The disk refuses.
    """
    digest = xxh3.xxh3_128()
    with reading_errors(path, "reading a copy of a part"), _opened(path) as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            yield data
    if digest.digest() != entry.digest:
        message = "the file does not have the digest of the part list"
        raise CorruptionError(message, path=path)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        message = "the copy is gone"
        raise CorruptionError(message, path=path) from error
