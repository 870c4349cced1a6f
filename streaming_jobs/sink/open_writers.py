"""Streams that commits of this process write, kept open between two commits.

Who keeps one keeps others from its shards: it is closed after some idle seconds, and as soon as
another process waits for it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from storage_core import ShardlogError, StagingArea, Stream
from streaming_jobs.common.open_streams import OpenStreams
from streaming_jobs.common.stream_location import StreamLocation

IDLE_S: Final = 3.0
_WRITERS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class _Writer:
    area: StagingArea
    stream: Stream
    shards: frozenset[int]

    def close(self) -> None:
        # All that was committed is durable; an error of closing says nothing about it.
        with suppress(ShardlogError):
            self.stream.close()

    def is_wanted(self) -> bool:
        try:
            return self.area.somebody_waits()
        except (ShardlogError, OSError):
            # The stream's directory is gone; there is nothing to keep.
            return True


class OpenWriters(OpenStreams[_Writer]):
    """Writers by the place of the stream they write; with no idle time each is closed at once.

    Threads of this process wait for each other's shards as other processes do.
    """

    def __init__(self, idle_s: float) -> None:
        super().__init__(_WRITERS_MAX, idle_s, _Writer.is_wanted)

    @contextmanager
    def of(
        self,
        place: StreamLocation,
        area: StagingArea,
        shards: Iterable[int],
        wait_s: float,
        purpose: str,
    ) -> Iterator[Stream]:
        """Lend a stream with these shards open, and perhaps more.

        Raises:
            ShardLockedError: Another writer kept a shard for too long.
        """
        wanted = frozenset(shards)

        def serves(writer: _Writer) -> bool:
            return writer.area.incarnation == area.incarnation and wanted <= writer.shards

        def opened(old: _Writer | None) -> _Writer:
            is_same = old is not None and old.area.incarnation == area.incarnation
            numbers = wanted | old.shards if old is not None and is_same else wanted
            return _Writer(area, area.open_shards(numbers, wait_s, purpose), numbers)

        with self.lease((place.path, place.stream), serves, opened) as writer:
            yield writer.stream


# A stream's next commit comes soon; a batch write's may never come.
KEPT_OPEN: Final = OpenWriters(IDLE_S)
CLOSED_AT_ONCE: Final = OpenWriters(0)
