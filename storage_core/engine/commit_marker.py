"""The marker: the small file that publishes what is committed in a shard.

It has two slots (marker_slot.py), written in turn, and is recovery's high-water mark and what
every reader clips to. Creation, open and close leave both slots valid; a reader that finds
one invalid retries and then raises, since the other may be the older one. Only an opener
may go on from one slot.

One thread writes at a time (the shard's commit lock); any process may read.
"""

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from storage_core.errors import ClosedError, CorruptionError
from storage_core.format.marker_slot import (
    SLOT_BYTES,
    SLOT_STRIDE,
    MarkerState,
    decode_slots,
    encode_slot,
)
from storage_core.platform.clock import Clock
from storage_core.platform.descriptor import OwnedDescriptor, opened
from storage_core.platform.durable_file import reading_errors

MARKER_FILE: Final = "marker"
_READ_TRIES_MAX: Final = 50
_READ_PAUSE_S: Final = 0.002


class MarkerWriter(Protocol):
    """What a shard needs of its marker file."""

    @property
    def state(self) -> MarkerState:
        """What the marker says."""
        ...

    def publish(self, committed: int) -> None:
        """Write the other slot and make it durable."""
        ...

    def write_both(self, state: MarkerState) -> None:
        """Write both slots, one durable after the other."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class MarkerFile:
    """A marker open for writing."""

    def __init__(self, path: Path, descriptor: int, state: MarkerState) -> None:
        """Take over an open file whose newest state is known."""
        self._path = path
        self._descriptor = descriptor
        self.state = state

    def publish(self, committed: int) -> None:
        """Write the older slot with a new committed and make it durable."""
        self._write(replace(self.state, sequence=self.state.sequence + 1, committed=committed))

    def write_both(self, state: MarkerState) -> None:
        """Write both slots, one durable after the other."""
        self._write(replace(state, sequence=self.state.sequence + 1))
        self._write(replace(state, sequence=self.state.sequence + 1))

    def close(self) -> None:
        """Close the file, once; a later write fails instead of hitting another file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _write(self, state: MarkerState) -> None:
        data = encode_slot(state)
        written = os.pwrite(self._descriptor, data, (state.sequence & 1) * SLOT_STRIDE)
        if written != len(data):
            message = f"wrote {written} of {len(data)} bytes of the marker {self._path}"
            raise OSError(message)
        os.fdatasync(self._descriptor)
        self.state = state


def create_marker(path: Path, committed: int, lineage: bytes) -> None:
    """Make the marker of a new shard, both slots valid, durable but for its directory entry."""
    data = bytearray(2 * SLOT_STRIDE)
    for sequence in (0, 1):
        offset = sequence * SLOT_STRIDE
        slot = encode_slot(MarkerState(sequence, 0, committed, lineage))
        data[offset : offset + SLOT_BYTES] = slot
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_marker(path: Path) -> tuple[MarkerFile | None, int]:
    """Open a marker for writing, as only the holder of the shard's lock may.

    Returns:
        The file at its newest valid slot (None if no slot is valid), and how many are.

    Raises:
        CorruptionError: The file is missing.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError as error:
        message = "the shard's marker is missing; open with give_up_marker to go on without it"
        raise CorruptionError(message, path=path) from error
    try:
        slots = decode_slots(os.pread(descriptor, 2 * SLOT_STRIDE, 0))
        if slots:
            newest = max(slots, key=lambda slot: slot.sequence)
            return MarkerFile(path, descriptor, newest), len(slots)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None, 0


class MarkerReader:
    """A marker as another process reads it: one `stat` and one `pread` a look.

    A file that was put in the place of the one it has open is read from then on. Any thread may
    call it.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open the file for reading.

        Raises:
            CorruptionError: The file is missing.
        """
        self._path = path
        self._clock = clock
        # Held over each `pread`: a descriptor closed meanwhile may be another file's by then.
        self._lock = threading.Lock()
        self._open_file: OwnedDescriptor | None = self._open()
        self._file = os.fstat(self._open_file.fileno())
        # What was damaged to the end of a wait; nobody waits for the same bytes again.
        self._damaged: bytes | None = None

    @property
    def file(self) -> tuple[int, int]:
        """Which file was read last; another one once it was replaced."""
        return (self._file.st_dev, self._file.st_ino)

    def read(self) -> MarkerState:
        """Return the newest state once both slots are valid.

        Raises:
            CorruptionError: A slot stays invalid, and the writer must reopen the shard; or the
                file is gone.
            UnavailableError: The system does not let it be read.
            ClosedError: It was closed.
        """
        data = None
        for _ in range(_READ_TRIES_MAX):
            with self._lock, reading_errors(self._path, "reading the marker"):
                if self._open_file is None:
                    message = "the reader is closed"
                    raise ClosedError(message, path=self._path)
                data = os.pread(self._current(self._open_file).fileno(), 2 * SLOT_STRIDE, 0)
            slots = decode_slots(data)
            if len(slots) == 2:  # noqa: PLR2004 - both slots
                return max(slots, key=lambda slot: slot.sequence)
            if data == self._damaged:
                break
            self._clock.sleep(_READ_PAUSE_S)
        self._damaged = data
        message = "a slot of the marker is damaged; opening the shard for writing repairs it"
        raise CorruptionError(message, path=self._path)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            open_file, self._open_file = self._open_file, None
            if open_file is not None:
                open_file.close()

    def _current(self, open_file: OwnedDescriptor) -> OwnedDescriptor:
        """Return what has the file that is there at this moment. Under the lock."""
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            message = "the shard's marker is missing: the stream was dropped or moved, or damaged"
            raise CorruptionError(message, path=self._path) from error
        if not os.path.samestat(status, self._file):
            open_file = self._open()
            self._open_file, self._file = open_file, os.fstat(open_file.fileno())
        return open_file

    def _open(self) -> OwnedDescriptor:
        try:
            return opened(self._path, os.O_RDONLY)
        except FileNotFoundError as error:
            message = "the shard's marker is missing"
            raise CorruptionError(message, path=self._path) from error
