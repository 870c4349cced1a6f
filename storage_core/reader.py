"""A stream as any process reads it, beside a writer or without one."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from storage_core.clock import Clock
from storage_core.environment import Environment
from storage_core.errors import ClosedError, InvalidRequestError
from storage_core.follower import ShardFollower
from storage_core.position import Position, ShardPosition
from storage_core.reads import StreamReads
from storage_core.stream_file import StreamFiles, read_stream

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
        self._is_closed = False

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
        """
        clock = (environment or Environment()).clock
        files = read_stream(Path(root), name)
        followers = {
            number: ShardFollower(files, number, clock)
            for number in sorted(files.settings.lineages)
        }
        return cls(files, followers, clock)

    def committed(self) -> dict[int, int]:
        """Return each shard's committed, by one look at its marker."""
        return {n: follower.committed() for n, follower in self._open_followers().items()}

    def refresh(self) -> dict[int, int]:
        """Follow the writers to about now; return each shard's committed."""
        return {n: follower.refresh() for n, follower in self._open_followers().items()}

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
        lineages = self._files.settings.lineages
        return Position(
            self._files.meta.incarnation,
            {n: ShardPosition(lineages[n].hex(), end) for n, end in self.committed().items()},
        )

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""
        self._is_closed = True
        self._stop_threads()
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
        """Close."""
        self.close()

    def _open_followers(self) -> Mapping[int, ShardFollower]:
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
