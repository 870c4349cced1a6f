"""Bytes of parts that only the lake has, in files of this machine: a bounded cache.

    <directory>/<name>      bytes as they were proven once; a name has the same bytes for ever

A name begins with the digest of a part. What is called otherwise is not of this cache, and stays;
what is no regular file is never opened.

Any number of processes and threads may use one directory. A file appears whole, without a sync:
whoever takes bytes proves them, and drops what is damaged. Those that were used longest ago go
once all together take more than they may; between two looks at that each process may add
`1 / _LOOKS` of it. A disk that is full, or a directory that may not be written to, makes it slower
and nothing else.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from os import scandir
from pathlib import Path
from shutil import disk_usage
from stat import S_ISREG
from threading import Lock
from typing import Final

from storage_core.errors import UnavailableError
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import DRAFT, replace_whole
from storage_core.platform.file_lock import DirectoryLock

CACHE_BYTES_MAX: Final = 10 * 2**30
# The names of bytes and of whole files (lake_bytes.py, lake_parts.py), and of what becomes one.
_OURS: Final = re.compile(r"[0-9a-f]{32}(-\d+-\d+|\.parquet)(\.[0-9a-f]+" + re.escape(DRAFT) + ")?")
_LOOKS: Final = 32
# What is left once it was too much.
_LEFT: Final = 0.9
# How exactly is known when a file was used.
_USED_NS: Final = 60 * 10**9


class ByteCache:
    """Bytes by name. Any thread."""

    def __init__(self, directory: Path, bytes_max: int, clock: Clock) -> None:
        """Use a directory, which is made once there is something to be kept.

        Args:
            directory: It; only what this class put there may be in it.
            bytes_max: What its files may take; 0 for no cache: what lies there is not used, either.
            clock: Says when bytes were used.
        """
        self._directory = directory
        self.bytes_max = bytes_max
        self._clock = clock
        # Before the first bytes are put there, one looks at what others did.
        self._added = bytes_max
        self._lock = Lock()

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a name, which are to be proven; None if there are none."""
        if not self.bytes_max:
            return None
        try:
            with open(self._directory / name, "rb", opener=_opened) as file:
                status, now_ns = os.fstat(file.fileno()), self._clock.now_ns()
                if not S_ISREG(status.st_mode):
                    return None
                used_ns = status.st_mtime_ns
                if not 0 <= now_ns - used_ns < _USED_NS:
                    with suppress(OSError):
                        os.utime(file.fileno(), ns=(now_ns, now_ns))
                return file.read()
        except OSError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes of a name, if there is room."""
        self.put_file(name, (data,), len(data))

    def put_file(
        self, name: str, pieces: Iterable[bytes], size: int, wait_s: float = 0
    ) -> Path | None:
        """Keep bytes that come in pieces, and return their file; None if there is no room.

        What is raised by the pieces is raised here; nothing is kept then.

        Args:
            name: Their name.
            pieces: They.
            size: How many they are.
            wait_s: How long to wait for another who makes room.
        """
        if size > self.bytes_max:
            return None
        path = self._directory / name
        source = _Pieces(pieces)
        try:
            self._directory.mkdir(exist_ok=True)
            if not self._has_room(size, wait_s):
                return None
            replace_whole(path, source)
        except OSError:
            if source.has_failed:
                raise
            return None
        return path

    def file(self, name: str, size: int) -> Path | None:
        """Return the file of a name that has so many bytes, to be proven; None if there is none."""
        if not self.bytes_max:
            return None
        path = self._directory / name
        try:
            status = path.lstat()
            if not S_ISREG(status.st_mode) or status.st_size != size:
                return None
            os.utime(path, ns=(self._clock.now_ns(),) * 2, follow_symlinks=False)
        except OSError:
            return None
        return path

    def drop(self, name: str) -> None:
        """Keep the bytes of a name no longer."""
        with suppress(OSError):
            (self._directory / name).unlink(missing_ok=True)

    def _has_room(self, size: int, wait_s: float) -> bool:
        """Make room where it is time to; False while another is at it."""
        with self._lock:
            if self._added + size <= self.bytes_max // _LOOKS:
                self._added += size
                return True
        try:
            lock = DirectoryLock.within(self._directory, self._clock, wait_s)
        except UnavailableError:
            return False
        if lock is None:
            return False
        with lock:
            self._evict(size)
        with self._lock:
            self._added = size
        return True

    def _evict(self, size: int) -> None:
        """Delete the files that were used longest ago, where all are more than they may be."""
        files = []
        with scandir(self._directory) as entries:
            for entry in entries:
                if not _OURS.fullmatch(entry.name):
                    continue
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime_ns, status.st_size, entry.name))
        total = sum(file_size for _, file_size, _ in files) + size
        # The disk is the log's: no more than half of what would be free without the cache.
        most = min(self.bytes_max, (total + disk_usage(self._directory).free) // 2)
        if total <= most:
            return
        for _, file_size, name in sorted(files):
            if total <= _LEFT * most:
                return
            self.drop(name)
            total -= file_size


class _Pieces:
    """Bytes that come in pieces; knows whether it was they that failed, and not the disk."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """Begin with none of them."""
        self._pieces = pieces
        self.has_failed = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield them."""
        pieces = iter(self._pieces)
        while True:
            try:
                piece = next(pieces)
            except StopIteration:
                return
            except BaseException:
                self.has_failed = True
                raise
            yield piece


def _opened(path: str, flags: int) -> int:
    """Open a file; a pipe or a link that somebody else put there holds up nobody."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
