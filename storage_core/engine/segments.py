"""Segments: files of blocks beside RocksDB, for those that come in large batches.

What RocksDB is given it writes twice and copies five times: into its log under a checksum, into
a memtable, into a table file, and into a larger one when small ones are joined. Blocks need
none of that: they come in order, never change, and their zones hold their checksums. So the
blocks of a large batch go into a segment, once, and under their keys references
(reference.py) go into the batch.

    db/segments/00000001       blocks one behind the other, nothing between them
    db/segments/00000002       the next, begun where one has 128 MiB

What has expired goes by whole segments: `m segments begin` and the keys of segments (`g`) say which
are kept. A file that is not, and is there all the same, was left by a crash and is removed.

IMPORTANT: a block is durable before its reference is written. So a reference that a crash has
left has its block, and recovery takes it over like any other row; to find out afterwards
which batches are whole would take undoing heads, windows and counters.

The batch notes where the segments end with it (shard_state.py: `m segments`). There the next
writer goes on: what a crash before the batch left behind the end is named by nobody and cut
off. A store that has less than was recorded is not opened: RocksDB would not miss it, and new
blocks would take the places of those that the references mean.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from storage_core.engine.key_value import Batch
from storage_core.errors import ClosedError, CorruptionError
from storage_core.format.block import is_reference
from storage_core.format.keys import FAMILY_DEFAULT, FAMILY_LOG, decode_log_key, segment_key
from storage_core.format.reference import (
    Reference,
    decode_reference,
    encode_reference,
)
from storage_core.format.shard_state import (
    KEY_SEGMENTS,
    SegmentsEnd,
    encode_segment,
    encode_segments_end,
)
from storage_core.platform.descriptor import OwnedDescriptor, opened
from storage_core.platform.durable_file import (
    file_errors,
    make_directories,
    reading_errors,
    sync_directory,
    taking_errors,
)

# Of a batch with few bytes of blocks, one more sync costs more than RocksDB's way. One of a
# transaction, staged with almost a MiB, has more.
APART_BYTES_MIN: Final = 3 * 2**18
SEGMENT_BYTES: Final = 128 * 2**20
_DIRECTORY: Final = "segments"
# What one call of the system takes.
_PIECES_MAX: Final = 512
_IS_MISSING: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_WAY_OUT: Final = (
    "restore it from a backup; or give its blocks up with a file of zeros that is as long "
    "(truncate -s), and their rows are told as lost when they are met"
)


def _name_of(number: int) -> str:
    return f"{number:08d}"


@lru_cache(maxsize=1024)
def segment_path(store: Path, number: int) -> Path:
    """Return the file of a segment."""
    return store / _DIRECTORY / _name_of(number)


class LiveSegments(NamedTuple):
    """Which segments are live: from `begin` on all but those that are deleted."""

    begin: int = 1
    deleted: frozenset[int] = frozenset()


class SegmentWriter:
    """The segment that a store's large blocks go to. One thread at a time."""

    def __init__(
        self,
        store: Path,
        recorded_end: SegmentsEnd | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        apart_bytes_min: int = APART_BYTES_MIN,
        live: LiveSegments | None = None,
    ) -> None:
        """Find the end recorded with the last large batch; nothing is written before the next.

        Raises:
            CorruptionError: It is not all there.
            InvalidRequestError: This process may not write to it.
        """
        self._store = store
        self._segment_bytes = segment_bytes
        self._apart_bytes_min = apart_bytes_min
        self._number, self._end = _find_end(store, recorded_end, live or LiveSegments())
        self._segment: OwnedDescriptor | None = None

    def take_blocks(self, batch: Batch) -> None:
        """Write the blocks of a large batch behind all others; durable on return.

        In the batch references take their place, and the note of the end comes with them. So one
        that was broken off and is written again has no blocks any more, and means the same bytes.

        Raises:
            UnavailableError: The disk is full, failing or forbidden.
        """
        written = (value for family, _, value in batch.puts if family == FAMILY_LOG)
        if sum(len(value) for value in written if not is_reference(value)) < self._apart_bytes_min:
            return
        with file_errors(self._store / _DIRECTORY, "writing blocks"):
            descriptor = self._with_room().fileno()
            blocks, puts, end = [], [], self._end
            for family, key, value in batch.puts:
                put = family, key, value
                if family == FAMILY_LOG:
                    put = family, key, encode_reference(Reference(self._number, end, len(value)))
                    blocks.append(value)
                    end += len(value)
                puts.append(put)
            note = encode_segments_end(SegmentsEnd(self._number, end))
            puts.append((FAMILY_DEFAULT, KEY_SEGMENTS, note))
            if not self._end:
                first = next(key for family, key, _ in puts if family == FAMILY_LOG)
                begun = encode_segment(decode_log_key(first))
                puts.append((FAMILY_DEFAULT, segment_key(self._number), begun))
            try:
                _write_all(descriptor, blocks, self._end)
                os.fdatasync(descriptor)
            except OSError:
                # On a full disk nothing else would give it back.
                with suppress(OSError):
                    os.ftruncate(descriptor, self._end)
                raise
            # IMPORTANT: once all is durable; until then a second run writes the same again.
            self._end, batch.puts = end, puts

    def close(self) -> None:
        """Close the segment; a second call does nothing."""
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _with_room(self) -> OwnedDescriptor:
        """Return the segment that the next block goes to."""
        is_full = self._end >= self._segment_bytes
        if self._segment is not None and not is_full:
            return self._segment
        number, end = (self._number + 1, 0) if is_full else (self._number, self._end)
        make_directories(self._store / _DIRECTORY)
        segment = opened(segment_path(self._store, number), os.O_WRONLY | os.O_CREAT)
        # What a crash left behind the end; before the first reference nobody reads it.
        os.ftruncate(segment.fileno(), end)
        # Whoever made the file, or its directory, may have died before this.
        sync_directory(self._store / _DIRECTORY)
        sync_directory(self._store)
        # IMPORTANT: last of all; an interruption before leaves all this to be done again.
        self._number, self._end, self._segment = number, end, segment
        return segment


def _find_end(store: Path, recorded_end: SegmentsEnd | None, live: LiveSegments) -> SegmentsEnd:
    """Return where the next block goes; refuse what the first large batch would break on."""
    directory = store / _DIRECTORY
    with taking_errors(directory, "looking for segments"):
        try:
            with os.scandir(directory) as entries:
                is_file = {entry.name: entry.is_file() for entry in entries}
        except FileNotFoundError:
            is_file = {}
        except NotADirectoryError as error:
            message = "not a directory; blocks of large batches belong there"
            raise CorruptionError(message, path=directory) from error
    for number in (int(name) for name in is_file if name.isdecimal()):
        if number < live.begin or number in live.deleted:
            # A crash has left it; what the system does not let go stays.
            with suppress(OSError):
                segment_path(store, number).unlink()
    newest = live.begin - 1
    while newest + 1 in live.deleted or is_file.get(_name_of(newest + 1)):
        newest += 1
    last = newest if recorded_end is None else recorded_end.number
    if newest < last:
        message = f"a segment is missing; {_WAY_OUT}"
        raise CorruptionError(message, path=segment_path(store, newest + 1))
    following = segment_path(store, last + 1)
    if is_file.get(following.name) is False:
        message = "not a file; the next segment belongs there, move this away"
        raise CorruptionError(message, path=following)
    if not last:
        return SegmentsEnd(1, 0)
    path = segment_path(store, last)
    with taking_errors(path, "opening the last segment"):
        segment = opened(path, os.O_WRONLY)
        size = os.fstat(segment.fileno()).st_size
        # The trace of an error would keep it open.
        del segment
    # Without a note nothing refers to what is there. It stays: RocksDB's own files may be lost.
    end = size if recorded_end is None else recorded_end.end
    if size < end:
        message = f"the segment has {size} of {end} bytes; {_WAY_OUT}"
        raise CorruptionError(message, path=path)
    return SegmentsEnd(last, end)


def _write_all(descriptor: int, blocks: Sequence[bytes], offset: int) -> None:
    rest: list[bytes | memoryview] = list(reversed(blocks))
    while rest:
        pieces = rest[: -_PIECES_MAX - 1 : -1]
        written = os.pwritev(descriptor, pieces, offset)
        offset += written
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
        self._cached: tuple[int, OwnedDescriptor] | None = None
        self._is_closed = False

    def block(self, reference: bytes) -> bytes:
        """Return the bytes that a reference names.

        Raises:
            CorruptionError: They are not there.
            UnavailableError: The disk fails under them, or the system lets nobody read them now.
            ClosedError: The store was closed.
        """
        number, offset, size = decode_reference(reference)
        path = segment_path(self._store, number)
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

    def location_of(self, reference: bytes) -> str:
        """Say where the bytes lie that a reference names."""
        number, offset, size = decode_reference(reference)
        return f"bytes [{offset}, {offset + size}) of {segment_path(self._store, number)}"

    def close(self) -> None:
        """Let go of what is open; a second call does nothing."""
        self._is_closed = True
        self._cached = None

    def _opened(self, path: Path, number: int) -> OwnedDescriptor:
        cached = self._cached
        # NOTE: a file that was removed is read on by those who have it open.
        if cached is None or cached[0] != number or not os.fstat(cached[1].fileno()).st_nlink:
            cached = self._cached = number, opened(path, os.O_RDONLY)
        # IMPORTANT: last; what was kept behind a `close` goes as well.
        if self._is_closed:
            self._cached = None
            message = "the store was closed while it was being read"
            raise ClosedError(message, path=self._store)
        return cached[1]


@contextmanager
def _reading_errors(path: Path) -> Iterator[None]:
    """Tell a segment that is missing from a system that cannot read it now.

    IMPORTANT: a disk that fails is not damage. Whoever meets damage notes its rows as lost for
    good, and a second look may find them.
    """
    with reading_errors(path, "reading a block"):
        try:
            yield
        except _IS_MISSING as error:
            message = "a segment is missing"
            raise CorruptionError(message, path=path) from error


def _read_all(descriptor: int, size: int, offset: int) -> bytes:
    """Return so many bytes, or all to the file's end; one call reads no more than 2 GiB."""
    data = os.pread(descriptor, size, offset)
    if len(data) == size:
        return data
    pieces = [data]
    while data:
        offset, size = offset + len(data), size - len(data)
        data = os.pread(descriptor, size, offset)
        pieces.append(data)
    return b"".join(pieces)
