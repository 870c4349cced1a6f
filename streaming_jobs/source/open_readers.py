"""Streams that tasks of this process read, kept open from task to task.

A reader is known by its place and by the file that holds the ids found there, so that a stream
made anew is never read through an old one.
"""

from contextlib import AbstractContextManager
from typing import Final

from storage_core import Clock, InvalidRequestError, StreamReader
from streaming_jobs.open_streams import OpenStreams
from streaming_jobs.stream_place import StreamPlace

_READERS_MAX: Final = 8
_IDLE_S: Final = 60.0


class OpenReaders(OpenStreams[StreamReader]):
    """Readers by the stream they read."""

    def __init__(self, clock: Clock | None = None, most: int = _READERS_MAX) -> None:
        super().__init__(most, _IDLE_S, clock=clock)

    def of(self, place: StreamPlace, shard: int) -> AbstractContextManager[StreamReader]:
        """Lend the reader of a stream that knows a shard, for as long as a block lasts.

        Raises:
            ForeignDataError: What is at the place is not that stream, or not on this machine.
        """
        key = (place, place.stamp())
        return self.lease(key, lambda reader: _knows(reader, shard), lambda _: place.reader())


def _knows(reader: StreamReader, shard: int) -> bool:
    """Tell whether a reader has a shard, that may have been added after it was opened."""
    try:
        reader.lineage(shard)
    except InvalidRequestError:
        return False
    return True


OPEN_READERS: Final = OpenReaders()
