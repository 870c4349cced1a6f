"""Streams that this process has open for reading, kept from task to task.

A Python worker of Spark runs tasks of many queries one after the other, and opening a shard
costs as much as reading 60,000 rows. So readers stay open: a bounded number, the one used last
longest, none that was idle for a minute. A reader is known by its place and by the ids that
were found there when it was opened, and is lent only while the file that holds them is the same
one, so a stream made anew is never read through an old one.

Spark's Python workers are forks. What was open before a fork belongs to the parent: the fork
begins with nothing, and closes nothing of it.
"""

import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from storage_core import (
    Clock,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
    StreamReader,
    SystemClock,
    root_id,
)
from streaming_jobs.source.partitions import StreamPlace

_READERS_MAX: Final = 8
_IDLE_MAX_S: Final = 60.0
# Made once with a stream and never written again.
_STREAM_FILE: Final = "stream.json"

Stamp = tuple[int, ...] | None


@dataclass(slots=True)
class _Open:
    reader: StreamReader
    stamp: Stamp
    leases: int = 0
    used_s: float = 0.0


@dataclass(slots=True)
class OpenReaders:
    """Readers by the stream they read. Any thread may lease."""

    clock: Clock = field(default_factory=SystemClock)
    readers_max: int = _READERS_MAX
    idle_max_s: float = _IDLE_MAX_S
    _open: OrderedDict[StreamPlace, _Open] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: int = field(default_factory=os.getpid)

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    @contextmanager
    def lease(self, place: StreamPlace, shard: int) -> Iterator[StreamReader]:
        """Lend the reader of a stream that knows a shard, for as long as a block lasts.

        Raises:
            ForeignDataError: What is at the place is not that stream, or not on this machine.
        """
        self._leave_to_parent()
        process = self._process
        with self._lock:
            entry = self._find(place, shard)
            entry.leases += 1
        is_doubtful = False
        try:
            yield entry.reader
        except ShardlogError:
            # What it holds may be the cause: the next task opens anew.
            is_doubtful = True
            raise
        finally:
            # A block that a fork leaves is its parent's lease.
            if os.getpid() == process:
                self._give_back(place, entry, is_doubtful=is_doubtful)

    def _give_back(self, place: StreamPlace, entry: _Open, *, is_doubtful: bool) -> None:
        with self._lock:
            if is_doubtful and self._open.get(place) is entry:
                del self._open[place]
            entry.leases -= 1
            entry.used_s = self.clock.monotonic_s()
            if entry.leases == 0 and self._open.get(place) is not entry:
                entry.reader.close()
            self._close_some()

    def _leave_to_parent(self) -> None:
        """Begin with nothing in a fork; a thread that is not in it may hold the lock."""
        if self._process != os.getpid():
            self._open, self._lock = OrderedDict(), threading.Lock()
            self._process = os.getpid()

    def _find(self, place: StreamPlace, shard: int) -> _Open:
        self._close_some()
        entry = self._open.get(place)
        stamp = _stamp(place)
        if entry is None or entry.stamp != stamp or not _knows(entry.reader, shard):
            # It may be a shard that was added after the reader was opened.
            fresh = _Open(open_place(place), stamp)
            if entry is not None and entry.leases == 0:
                entry.reader.close()
            entry = self._open[place] = fresh
        self._open.move_to_end(place)
        return entry

    def _close_some(self) -> None:
        """Close readers that were idle for long, and the oldest beyond the bound."""
        at = self.clock.monotonic_s()
        idle = [place for place, entry in self._open.items() if entry.leases == 0]
        beyond = max(0, len(self._open) - self.readers_max)
        for rank, place in enumerate(idle):
            if rank < beyond or at - self._open[place].used_s > self.idle_max_s:
                self._open.pop(place).reader.close()

    def close(self) -> None:
        """Close all that nobody has leased."""
        self._leave_to_parent()
        with self._lock:
            for place in [place for place, entry in self._open.items() if entry.leases == 0]:
                self._open.pop(place).reader.close()


def open_place(place: StreamPlace) -> StreamReader:
    """Open the stream that a driver saw at a place, or say why this is not it.

    Raises:
        ForeignDataError: Another root or another incarnation, or none, is there.
    """
    host = socket.gethostname()
    try:
        root = root_id(place.path)
        reader = StreamReader.open(place.path, place.stream)
    except InvalidRequestError as error:
        if _stamp(place) is not None:
            # It is there; something else is asked of this process.
            raise
        message = (
            f"host {host} has no stream {place.stream!r} at {place.path} ({error.message}); "
            "tasks must run on the machine that has the root"
        )
        raise ForeignDataError(message) from error
    incarnation = reader.position().incarnation
    if root == place.root and incarnation == place.incarnation:
        return reader
    reader.close()
    if root == place.root:
        message = (
            "the stream was made anew since the driver saw it: load the frame again; a stream's "
            "query begins anew with a new checkpoint"
        )
        raise ForeignDataError(message, stream=place.stream)
    message = (
        f"host {host} has another root of stream {place.stream!r} at {place.path} "
        "than the driver saw; tasks must run on the machine that has the root"
    )
    raise ForeignDataError(message)


def _stamp(place: StreamPlace) -> Stamp:
    """Return what tells a stream's file from any other at its place, None if it is not there."""
    try:
        found = (Path(place.path) / place.stream / _STREAM_FILE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _knows(reader: StreamReader, shard: int) -> bool:
    try:
        reader.lineage(shard)
    except InvalidRequestError:
        return False
    return True


OPEN_READERS: Final = OpenReaders()
