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

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from storage_core.errors import ClosedError, CorruptionError
from storage_core.format.reference import Reference, decode_reference
from storage_core.ground.durable_file import file_errors, make_directories, sync_directory

# Of a batch with fewer bytes of blocks, one more sync costs more than RocksDB's way.
APART_BYTES_MIN: Final = 2**20
SEGMENT_BYTES: Final = 128 * 2**20
_DIRECTORY: Final = "segments"
# What one call of the system takes.
_PIECES_MAX: Final = 512


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
    """Reads blocks by their references; keeps the segment open that was read last.

    Any thread may close it, between two reads.
    """

    def __init__(self, store: Path) -> None:
        """Open nothing yet."""
        self._store = store
        # Reentrant: a signal handler may let go of what it interrupts.
        self._lock = threading.RLock()
        self._descriptor: int | None = None
        self._number = 0
        self._is_closed = False

    def block(self, reference: bytes) -> bytes:
        """Return the bytes that a reference names.

        Raises:
            CorruptionError: They are not there.
            UnavailableError: The system does not let them be read.
            ClosedError: The store was closed.
        """
        number, offset, size = decode_reference(reference)
        path = _path_of(self._store, number)
        with self._lock, file_errors(path, "reading a block"):
            data = os.pread(self._opened(path, number), size, offset)
        if len(data) != size:
            message = f"the segment ends before byte {offset + size}"
            raise CorruptionError(message, path=path)
        return data

    def close(self) -> None:
        """Close what is open, once no thread is reading; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            self._let_go()

    def leave_to_parent(self) -> None:
        """Read no more; who had the lock is not in this process."""
        self._lock = threading.RLock()
        self._is_closed = True

    def _opened(self, path: Path, number: int) -> int:
        if self._is_closed:
            message = "the store was closed while it was being read"
            raise ClosedError(message, path=self._store)
        if self._descriptor is None or self._number != number:
            self._let_go()
            # IMPORTANT: first; an interruption may come between the two.
            self._number = number
            try:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError as error:
                message = "a segment is missing"
                raise CorruptionError(message, path=path) from error
        return self._descriptor

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
