"""Segments: files of blocks beside RocksDB, for those that come in large batches.

What RocksDB is given it writes twice and copies five times: into its log under a checksum, into
a memtable, into a table file, and into a larger one when small ones are joined. Blocks need
none of that: they come in order, never change, and their zones hold their checksums. So the
blocks of a large batch go into a segment, once, and under their keys references
(reference.py) go into the batch.

    db/segments/00000001       blocks one behind the other, nothing between them
    db/segments/00000002       the next, begun where one has 128 MiB

IMPORTANT: a block is durable before its reference is written. So a reference that a crash has
left has its block, and recovery takes it over like any other row; to find out afterwards
which batches are whole would take undoing heads, windows and counters.

A segment only grows. What a failed write, or a crash before the batch, leaves at its end is
named by nobody and stays; the next block goes behind it.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage_core.errors import ClosedError, CorruptionError
from storage_core.format.reference import Reference, decode_reference
from storage_core.ground.descriptor import OwnedDescriptor, opened
from storage_core.ground.durable_file import file_errors, make_directories, sync_directory

# Of a batch with fewer bytes of blocks, one more sync costs more than RocksDB's way.
APART_BYTES_MIN: Final = 2**20
SEGMENT_BYTES: Final = 128 * 2**20
_DIRECTORY: Final = "segments"
# What one call of the system takes.
_PIECES_MAX: Final = 512
# What reading a block tells of the segment itself.
_DAMAGED: Final = (errno.EIO, errno.EISDIR, errno.ENOTDIR)


def _path_of(store: Path, number: int) -> Path:
    return store / _DIRECTORY / f"{number:08d}"


class SegmentWriter:
    """The segment that a store's large blocks go to. One thread at a time."""

    def __init__(self, store: Path) -> None:
        """Begin with none; the first block opens the last segment there is, or makes one."""
        self._store = store
        self._descriptor: int | None = None
        self._number = 0
        self._end = 0
        self._is_named = False

    def append(self, blocks: Sequence[bytes]) -> list[Reference]:
        """Write blocks behind all others; durable on return.

        Raises:
            UnavailableError: The disk is full, failing or forbidden.
        """
        with file_errors(self._store / _DIRECTORY, "writing blocks"):
            descriptor = self._opened()
            references, end = [], self._end
            for block in blocks:
                references.append(Reference(self._number, end, len(block)))
                end += len(block)
            _write_all(descriptor, blocks, self._end)
            os.fdatasync(descriptor)
            # IMPORTANT: once all is durable; until then a second run writes the same again.
            self._end = end
        return references

    def close(self) -> None:
        """Close the segment; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _opened(self) -> int:
        if self._descriptor is None:
            make_directories(self._store / _DIRECTORY)
            names = os.listdir(self._store / _DIRECTORY)  # noqa: PTH208 - names alone
            self._open(max((int(name) for name in names if name.isdecimal()), default=1))
        if self._end >= SEGMENT_BYTES:
            self.close()
            self._open(self._number + 1)
        assert self._descriptor is not None
        if not self._is_named:
            # Whoever made the file, or its directory, may have died before this.
            sync_directory(self._store / _DIRECTORY)
            sync_directory(self._store)
            self._is_named = True
        return self._descriptor

    def _open(self, number: int) -> None:
        path = _path_of(self._store, number)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        # IMPORTANT: open last of all; an interruption before leaves it to be opened again.
        self._number, self._is_named = number, False
        self._end = os.fstat(descriptor).st_size
        self._descriptor = descriptor


def _write_all(descriptor: int, blocks: Sequence[bytes], at: int) -> None:
    rest: list[bytes | memoryview] = list(reversed(blocks))
    while rest:
        pieces = rest[: -_PIECES_MAX - 1 : -1]
        written = os.pwritev(descriptor, pieces, at)
        at += written
        while rest and written >= len(rest[-1]):
            written -= len(rest.pop())
        if written:
            rest[-1] = memoryview(rest[-1])[written:]


class SegmentReader:
    """Reads blocks by their references, for all views of a store; any thread may, and may close it.

    It keeps the segment open that was read last. One that is let go of while another thread reads
    it ends with that read: so there is no lock, which a fork could find held.
    """

    def __init__(self, store: Path) -> None:
        """Open nothing yet."""
        self._store = store
        # One value: another thread, or what an interruption leaves, has both or neither.
        self._kept: tuple[int, OwnedDescriptor] | None = None
        self._is_closed = False

    def block(self, reference: bytes) -> bytes:
        """Return the bytes that a reference names.

        Raises:
            CorruptionError: They are not there, or the disk fails under them.
            UnavailableError: The system does not let them be read.
            ClosedError: The store was closed.
        """
        number, offset, size = decode_reference(reference)
        path = _path_of(self._store, number)
        with _reading_errors(path):
            segment = self._opened(path, number)
            try:
                # IMPORTANT: first; for what a false reference asks there may be no memory.
                is_there = offset + size <= os.fstat(segment.fileno()).st_size
                data = _read_all(segment.fileno(), size, offset) if is_there else b""
            finally:
                # The trace of an error would keep it open.
                del segment
        if not is_there or len(data) != size:
            message = f"the segment ends before byte {offset + size}"
            raise CorruptionError(message, path=path)
        return data

    def place_of(self, reference: bytes) -> str:
        """Say where the bytes lie that a reference names."""
        number, offset, size = decode_reference(reference)
        return f"bytes [{offset}, {offset + size}) of {_path_of(self._store, number)}"

    def close(self) -> None:
        """Let go of what is open; a second call does nothing."""
        self._is_closed = True
        self._kept = None

    def _opened(self, path: Path, number: int) -> OwnedDescriptor:
        kept = self._kept
        # NOTE: a file that was removed is read on by those who have it open.
        if kept is None or kept[0] != number or not os.fstat(kept[1].fileno()).st_nlink:
            kept = self._kept = number, opened(path, os.O_RDONLY)
        # IMPORTANT: last; what was kept behind a `close` goes as well.
        if self._is_closed:
            self._kept = None
            message = "the store was closed while it was being read"
            raise ClosedError(message, path=self._store)
        return kept[1]


@contextmanager
def _reading_errors(path: Path) -> Iterator[None]:
    """Tell a segment that is gone or damaged from a system that has too many files open."""
    with file_errors(path, "reading a block"):
        try:
            yield
        except FileNotFoundError as error:
            message = "a segment is missing"
            raise CorruptionError(message, path=path) from error
        except OSError as error:
            if error.errno not in _DAMAGED:
                raise
            message = f"reading a block: {error.strerror}"
            raise CorruptionError(message, path=path) from error


def _read_all(descriptor: int, size: int, at: int) -> bytes:
    """Return so many bytes, or all to the file's end; one call reads no more than 2 GiB."""
    data = os.pread(descriptor, size, at)
    if len(data) == size:
        return data
    pieces = [data]
    while data:
        at, size = at + len(data), size - len(data)
        data = os.pread(descriptor, size, at)
        pieces.append(data)
    return b"".join(pieces)
