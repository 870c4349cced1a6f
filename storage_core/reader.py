"""A stream as any process reads it, beside a writer or without one."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.position import Position, ShardPosition
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.errors import ClosedError, InvalidRequestError
from storage_core.format.stream_stats import StreamStats, stats_of
from storage_core.ground.clock import Clock
from storage_core.ground.durable_file import file_errors
from storage_core.ground.forking import Home
from storage_core.read.follower import ShardFollower
from storage_core.read.request import ShardReader
from storage_core.reads import StreamReads
from storage_core.store.environment import Environment
from storage_core.store.open_files import open_files

_WAIT_PAUSE_FIRST_S: Final = 0.000_2
_WAIT_PAUSE_MAX_S: Final = 0.01


class StreamReader(StreamReads):
    """Reads all shards of a stream. Every read shows what is committed when it begins.

    Any thread may call it. A context manager.
    """

    def __init__(
        self, files: StreamFiles, followers: Mapping[int, ShardFollower], clock: Clock
    ) -> None:
        """Take over followers; use `open`."""
        super().__init__(self._open_followers)
        self._files = files
        self._followers = followers
        self._clock = clock
        self._stamp: tuple[int, ...] | None = None
        self._growing = threading.Lock()
        self._is_closed = False
        self._home = Home(files.meta.name)

    @classmethod
    def open(
        cls,
        root: str | PathLike[str],
        name: str,
        *,
        environment: Environment | None = None,
    ) -> Self:
        """Open a stream for reading; nothing is locked or changed.

        Raises:
            InvalidRequestError: There is no such root or stream.
            CorruptionError: A file of it is damaged.
            UnavailableError: The system does not give a file, or no more of them.
        """
        clock = (environment or Environment()).clock
        files = read_stream(Path(root), name)
        followers: dict[int, ShardFollower] = {}
        open_files().require_for_markers(len(files.settings.lineages), name)
        with ExitStack() as undo, file_errors(files.directory, "opening for reading"):
            for number in sorted(files.settings.lineages):
                followers[number] = ShardFollower(files, number, clock)
                undo.callback(followers[number].close)
            undo.pop_all()
        return cls(files, followers, clock)

    def committed(self) -> dict[int, int]:
        """Return each shard's committed, by one look at its marker."""
        return {n: follower.committed() for n, follower in self._open_followers().items()}

    def refresh(self) -> dict[int, int]:
        """Follow the writers to about now; return each shard's committed.

        Shards added, and options altered, since the reader was opened are there from then on.
        """
        self._open_followers()
        with file_errors(self._files.directory, "refreshing"):
            self._grow()
        return {n: follower.refresh() for n, follower in self._open_followers().items()}

    @property
    def origin(self) -> StreamOrigin | None:
        """What the stream is a copy of; None if its rows come from callers."""
        return self._files.meta.origin

    @property
    def options(self) -> StreamOptions:
        """The options as they were at the last `refresh`."""
        return self._files.settings.options

    def lineage(self, shard: int) -> str:
        """Return the random id of a shard's log, in hex."""
        return self._files.lineage(shard).hex()

    def shard(self, shard: int) -> ShardReader:
        """Return what answers a `ReadRequest` for one shard, as long as the reader is open."""
        return self._follower(shard)

    def born(self, shard: int) -> int:
        """Return the first address that a shard can ever have had."""
        self._follower(shard)
        return self._files.born(shard)

    def start(self, shard: int) -> int:
        """Return the first address that a shard still has or will have, by one look at it."""
        return max(self._follower(shard).state().start, self.born(shard))

    def missing(self, shard: int, start: int, end: int) -> list[tuple[int, int]]:
        """Return what of a range was there once and cannot be read any more, by one look.

        That is what lies below the log's start, down to the shard's birth, and what is lost.

        Args:
            shard: The shard's number.
            start: The range's first address.
            end: Its exclusive end.

        Returns:
            Parts of the range as (start, end), in order.
        """
        state, born = self._follower(shard).state(), self.born(shard)
        gone = [(born, state.start), *((lost.start, lost.end) for lost in state.lost)]
        found = [(max(start, first), min(end, last)) for first, last in gone]
        return sorted(part for part in found if part[0] < part[1])

    def stats(self, shard: int | None = None) -> StreamStats:
        """Return what one shard has counted, or all of them.

        They count what is written, so batches that are not committed yet may be among it.
        """
        followers = self._open_followers().values() if shard is None else [self._follower(shard)]
        return stats_of(follower.state().tail.counters for follower in followers)

    def lost_ranges(self) -> dict[int, list[tuple[int, int]]]:
        """Return each shard's lost ranges as (start, end)."""
        return {
            n: [(lost.start, lost.end) for lost in follower.state().lost]
            for n, follower in self._open_followers().items()
        }

    def source(self, shard: int) -> Mapping[str, object] | None:
        """Return where the source of a shard's rows stands, as the writer was told.

        It is that of the last batch written, which may not be committed yet.
        """
        return self._follower(shard).state().source

    def gaps(self) -> dict[int, list[tuple[int, int]]]:
        """Return each shard's ranges that `Stream.pass_over` left out, as (start, end)."""
        return {n: follower.gaps() for n, follower in self._open_followers().items()}

    def dead_letters(
        self, shard: int, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Return a shard's committed dead letters by address, as the writer was given them.

        Args:
            shard: The shard's number.
            start: The least address.
            end: Their exclusive end; None for all that is committed.
        """
        return self._follower(shard).dead_letters(start, end)

    def wait(self, shard: int, address: int, timeout: float) -> bool:
        """Sleep until a shard's committed is above an address.

        Args:
            shard: The shard's number.
            address: The address awaited.
            timeout: The longest to wait, in seconds.

        Returns:
            Whether the address is committed.
        """
        follower = self._follower(shard)
        if type(address) is not int or not isinstance(timeout, int | float):
            message = f"wait for an address and a number of seconds, not {address!r}, {timeout!r}"
            raise InvalidRequestError(message)
        deadline = self._clock.monotonic_s() + timeout
        pause = _WAIT_PAUSE_FIRST_S
        while follower.committed() <= address:
            left = deadline - self._clock.monotonic_s()
            if left <= 0:
                return False
            self._clock.sleep(min(pause, left))
            pause = min(2 * pause, _WAIT_PAUSE_MAX_S)
        return True

    def position(self) -> Position:
        """Return where the stream stands."""
        # Shards may be added meanwhile; those that have an end here are listed by then.
        ends = self.committed()
        return Position(
            self._files.meta.incarnation,
            {n: ShardPosition(self.lineage(n), end) for n, end in ends.items()},
        )

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""
        self._home.refuse_elsewhere()
        with self._growing:
            self._is_closed = True
        self._threads.stop()
        for follower in self._followers.values():
            follower.close()

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; a fork that ends by an exception leaves the reader to its parent."""
        if error is None or not self._home.is_elsewhere:
            self.close()

    def _grow(self) -> None:
        """Take in what options.json says, if it was replaced since the last look."""
        stamp = self._files.settings_stamp()
        if stamp is not None and stamp == self._stamp:
            return
        with self._growing:
            if self._is_closed:
                return
            files = self._files = self._files.reread()
            for number in sorted(set(files.settings.lineages) - set(self._followers)):
                follower = ShardFollower(files, number, self._clock)
                # Another dictionary: reads under way go on over the one they hold.
                self._followers = dict(sorted({**self._followers, number: follower}.items()))
            self._stamp = stamp

    def _open_followers(self) -> Mapping[int, ShardFollower]:
        self._home.refuse_elsewhere()
        if self._is_closed:
            message = "the reader is closed"
            raise ClosedError(message, stream=self._files.meta.name)
        return self._followers

    def _follower(self, shard: int) -> ShardFollower:
        follower = self._open_followers().get(shard)
        if follower is None:
            message = f"there is no shard {shard}; there are {sorted(self._followers)}"
            raise InvalidRequestError(message, stream=self._files.meta.name)
        return follower
