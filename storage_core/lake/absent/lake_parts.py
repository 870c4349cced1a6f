"""The parts of a stream that only its lake has: opened by name, read by range, kept for a while.

The name of a file in the lake follows from the part list's entry, so nothing is remembered here of
what lies where. Where the lake is the stream's own option says; how its store is reached, the
environment or the file that it names (options_file.py).

    SHARDLOG_LAKE_CACHE          where bytes are kept; by default `~lake-cache` in the root
    SHARDLOG_LAKE_CACHE_BYTES    how many; by default 10 GiB, 0 for none

Rooms below ask by `lake_parts` (storage_core/parts/part_home.py). Any thread and process may.
"""

import os
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

from storage_core.catalog.archived_shards import stream_having
from storage_core.catalog.root_file import STREAM_FILE
from storage_core.catalog.stream_meta import OPTIONS_FILE, read_meta, read_settings
from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.lake.absent.byte_cache import CACHE_BYTES_MAX, ByteCache
from storage_core.lake.absent.lake_bytes import RUN_BYTES_MAX, LakeBytes, LakeFile, UnitsCache
from storage_core.lake.absent.opened_files import OpenedFiles
from storage_core.lake.file_store import FileStore
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.options_file import (
    LAKE_OPTIONS_VARIABLE,
    lake_options,
    options_of_environment,
)
from storage_core.lake.target import LakeTarget, lake_target
from storage_core.parts.part_proof import digest_of
from storage_core.parts.snapshot import Part
from storage_core.platform import xxh3
from storage_core.platform.clock import SystemClock
from storage_core.platform.fork_guard import register

CACHE_VARIABLE: Final = "SHARDLOG_LAKE_CACHE"
CACHE_BYTES_VARIABLE: Final = "SHARDLOG_LAKE_CACHE_BYTES"
_CACHE_NAME: Final = "~lake-cache"
_LAKES_MAX: Final = 64
_OTHER_DIGEST: Final = "does not match its digest"
# How long a copy of a whole file waits for another process that makes room.
_WAIT_MAX_S: Final = 30.0


class LakeParts:
    """The parts that a table's store has of a stream. Any thread."""

    def __init__(self, target: LakeTarget, cache: ByteCache) -> None:
        """Connect to nothing yet."""
        self._target = target
        self._opened = OpenedFiles(FileStore(target))
        self._cache = cache
        self._no_cache = ByteCache(Path(), 0, SystemClock())
        self._units = UnitsCache()

    def open(self, part: Part) -> LakeBytes:
        """Return the bytes of a part; they are asked for as they are read."""
        return LakeBytes(self._file(part), self._cache, self._units)

    def open_uncached(self, part: Part) -> LakeBytes:
        """Return the bytes of a part as the store has them now; none of them are kept here."""
        return LakeBytes(self._file(part), self._no_cache, UnitsCache())

    def has(self, part: Part) -> bool:
        """Tell whether the file of a part is there, by its name and size alone."""
        file = self._file(part)
        with file.explained():
            size = self._opened.files.size(file.path)
        if size is None:
            file.refuse_lost_table()
        return size == part.entry.size

    def holds(self, part: Part) -> bool:
        """Tell whether a file of a part's name and size is there; no table is none.

        Raises:
            ShardlogError: The store cannot be asked now.
        """
        directory = self._target.directory
        if directory is not None and not directory.is_dir():
            return False
        return self._opened.files.size(self._file(part).path) == part.entry.size

    def prove(self, part: Part) -> None:
        """See that the store's file of a part is that of the part list, and keep its end here.

        All of it is read, and nothing else of it is kept.

        Raises:
            CorruptionError: It differs, or there is none.
            UnavailableError: The store cannot be read now.
        """
        file = self._file(part)
        try:
            LakeBytes(file, self._cache, self._units).bring_footer()
            deque(self.whole(part), maxlen=0)
        except FileNotFoundError as error:
            difference = "is not there"
            raise file.damage(difference) from error

    def whole(self, part: Part) -> Iterator[bytes]:
        """Yield the store's file of a part in pieces, none of which is proven before the last one.

        Nothing of it is kept here.

        Raises:
            FileNotFoundError: There is none.
            CorruptionError: It differs; raised behind the last piece, if not before.
            UnavailableError: The store cannot be read now.
        """
        file, size = self._file(part), part.entry.size
        digest = xxh3.xxh3_128()
        for begin in range(0, size, RUN_BYTES_MAX):
            data = file.read(begin, min(RUN_BYTES_MAX, size - begin))
            digest.update(data)
            yield data
        if digest.digest() != part.entry.digest:
            raise file.damage(_OTHER_DIGEST)

    def local_copies(self, parts: Sequence[Part]) -> list[Path]:
        """Return files of this machine that have whole parts, for a while."""
        total = sum(part.entry.size for part in parts)
        copies = []
        for part in parts:
            # One after the other they would take each other's place.
            copy = self._local_copy(part) if total <= self._cache.bytes_max // 2 else None
            if copy is None:
                message = (
                    f"{total} bytes of parts are only in the lake, and there is no room for copies "
                    f"of them here; read the table at {self._target.uri} itself, or let "
                    f"{CACHE_BYTES_VARIABLE} be twice as many"
                )
                raise UnavailableError(message)
            copies.append(copy)
        return copies

    def _local_copy(self, part: Part) -> Path | None:
        name, size = f"{part.entry.digest.hex()}.parquet", part.entry.size
        copy = self._cache.file(name, size)
        if copy is not None and not self._is_proven(copy, part):
            self._cache.drop(name)
            copy = None
        return copy or self._cache.put_file(name, self._all_of(part), size, _WAIT_MAX_S)

    def _is_proven(self, copy: Path, part: Part) -> bool:
        """Tell whether a copy is the part: it was not synced, and others may write there too."""
        try:
            return digest_of(copy) == part.entry.digest
        except OSError:
            return False

    def _file(self, part: Part) -> LakeFile:
        path = whole_image_name(part.shard, part.entry)
        return LakeFile(self._opened, self._target.uri, path, part)

    def _all_of(self, part: Part) -> Iterator[bytes]:
        """Yield a file from its begin to its end, and compare the whole of it at last."""
        digest = xxh3.xxh3_128()
        size = part.entry.size
        with closing(self.open(part)) as file:
            for begin in range(0, size, RUN_BYTES_MAX):
                data = file.read(begin, min(RUN_BYTES_MAX, size - begin))
                digest.update(data)
                yield data
        if digest.digest() != part.entry.digest:
            raise self._file(part).damage(_OTHER_DIGEST)


def lake_parts(logs_directory: Path) -> LakeParts | None:
    """Return the parts that are only in the lake of a stream; None where it has none.

    Args:
        logs_directory: The directory that has the shard's log, the stream's or of its archive.

    Raises:
        InvalidRequestError: The options of the lake are wrong, or its extra is not installed.
        ShardlogError: The stream's files cannot be read.
    """
    return _lakes().of(stream_having(logs_directory))


def parts_at(stream_directory: Path, uri: str) -> LakeParts:
    """Return the parts that another place has of a stream, as its lake would.

    Raises:
        InvalidRequestError: It is no place of a lake.
    """
    return LakeParts(lake_target(uri, lake_options()), lake_cache(stream_directory.parent))


class _Lakes:
    """The lakes of the streams that were read last in this process. Any thread."""

    def __init__(self) -> None:
        self._begin()

    def of(self, stream_directory: Path) -> LakeParts | None:
        try:
            stamp = _stamp(stream_directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with self._lock:
            key = stream_directory, stamp
            if key not in self._lakes:
                self._lakes[key] = _lake_of(stream_directory)
            self._lakes.move_to_end(key)
            while len(self._lakes) > _LAKES_MAX:
                self._lakes.popitem(last=False)
            return self._lakes[key]

    def leave_to_parent(self, _process: int) -> None:
        """Begin anew in a fork: the store's client has threads, which a fork does not have."""
        self._begin()

    def _begin(self) -> None:
        self._lakes: OrderedDict[object, LakeParts | None] = OrderedDict()
        self._lock = Lock()
        # A fork may fork.
        register(self)


def _stamp(stream_directory: Path) -> tuple[object, ...]:
    """Return what differs once a stream's lake may be another, or is reached otherwise."""
    named = [stream_directory / STREAM_FILE, stream_directory / OPTIONS_FILE]
    variables = [os.environ.get(name) for name in (CACHE_VARIABLE, CACHE_BYTES_VARIABLE)]
    options_file = os.environ.get(LAKE_OPTIONS_VARIABLE)
    single = options_of_environment()
    if options_file and Path(options_file).exists():
        named.append(Path(options_file))
    files = [file.stat() for file in named]
    return (
        *variables,
        options_file,
        *single,
        *((file.st_ino, file.st_mtime_ns, file.st_size) for file in files),
    )


def _lake_of(stream_directory: Path) -> LakeParts | None:
    uri = read_settings(stream_directory, read_meta(stream_directory)).options.lake
    if uri is None:
        return None
    target = lake_target(uri, lake_options())
    return LakeParts(target, lake_cache(stream_directory.parent))


@cache
def _lakes() -> _Lakes:
    return _Lakes()


def lake_cache(root: Path) -> ByteCache:
    """Return what keeps bytes of a root's parts on this machine, by the environment.

    Raises:
        InvalidRequestError: It says no number of bytes.
    """
    directory = os.environ.get(CACHE_VARIABLE)
    text = os.environ.get(CACHE_BYTES_VARIABLE, str(CACHE_BYTES_MAX))
    if not (text.isascii() and text.isdigit()):
        message = f"{CACHE_BYTES_VARIABLE}: {text!r} is no number of bytes"
        raise InvalidRequestError(message)
    place = Path(directory) if directory else root / _CACHE_NAME
    return ByteCache(place, int(text), SystemClock())
