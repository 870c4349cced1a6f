"""Streams that tasks of this process read, kept open from task to task.

A reader is known by its place and by the file that holds the ids found there, so that a stream
re-created is never read through an old one.

Of many streams' shards each batch reads some rows, and opening a shard costs twenty times what
reading those does. So a few readers are kept whatever they have open, and more as long as the
shards that were read through them are few for the files that a process may open.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from storage_core import Clock, InvalidRequestError, StreamReader
from storage_core.platform.handle_pool import HandlePool
from streaming_jobs.common.stream_location import StreamLocation

_READERS_MIN: Final = 8
# Each keeps a third of a megabyte, and its own files and its tables open.
_SHARDS_MAX: Final = 512
_FILES_A_SHARD: Final = 40
_IDLE_S: Final = 60.0


class OpenReaders(HandlePool[StreamReader]):
    """Readers by the stream they read."""

    def __init__(
        self, clock: Clock | None = None, most: int = _READERS_MIN, shards: int | None = None
    ) -> None:
        """Start with none.

        Args:
            clock: What measures idle time.
            most: How many are kept whatever they have open.
            shards: How many shards more of them may have open.
        """
        super().__init__(most, _IDLE_S, clock=clock)
        self._shards_most = _shards_kept() if shards is None else shards
        self._read: WeakKeyDictionary[StreamReader, set[int]] = WeakKeyDictionary()

    @contextmanager
    def of(self, place: StreamLocation, shard: int) -> Iterator[StreamReader]:
        """Lend the reader of a stream that knows a shard, for as long as a block lasts.

        Raises:
            ForeignDataError: What is at the place is not that stream, or not on this machine.
        """
        # One opened before a shard was archived has the old log, and is told so in every call.
        key = (place, place.stamp(), place.options_stamp())
        with self.lease(key, lambda one: _knows(one, shard), lambda _: place.reader()) as reader:
            self._read.setdefault(reader, set()).add(shard)
            yield reader

    def _are_too_many(self) -> bool:  # type: ignore[explicit-override]  # needs Python 3.12
        if not super()._are_too_many():
            return False
        return (
            sum(len(self._read.get(one, ())) for one, _ in self._idle.values()) > self._shards_most
        )


def _shards_kept() -> int:
    """Return how many shards may be kept open, by how many files there may be."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _SHARDS_MAX
        if files == resource.RLIM_INFINITY
        else min(_SHARDS_MAX, files // _FILES_A_SHARD)
    )


def _knows(reader: StreamReader, shard: int) -> bool:
    """Tell whether a reader has a shard, that may have been added after it was opened."""
    try:
        reader.lineage(shard)
    except InvalidRequestError:
        return False
    return True


OPEN_READERS: Final = OpenReaders()
