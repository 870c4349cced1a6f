"""Whose turn it is to open shards that somebody holds open between two uses.

A writer may keep its shards open for a while, because opening costs more than a small commit.
Who needs them takes the turn, an exclusive `flock` on the staging directory, and keeps it while
it waits; who holds the shards sees that the turn is taken and lets go. The kernel gives the
turn back when its holder ends. It guards nothing: the shards' own locks do.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from storage_core.errors import ShardLockedError
from storage_core.ground.clock import Clock
from storage_core.ground.directory_lock import lock_or_none

_RETRY_S: Final = 0.05


class Turn:
    """The turn, taken by entering, in bounded time."""

    def __init__(self, directory: Path, clock: Clock, deadline_s: float) -> None:
        """Wait until a moment of the clock's monotonic time at most."""
        self._directory = directory
        self._clock = clock
        self._deadline_s = deadline_s
        self._descriptor: int | None = None

    @staticmethod
    def is_taken(directory: Path) -> bool:
        """Tell whether somebody waits."""
        descriptor = lock_or_none(directory)
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def __enter__(self) -> Self:
        """Take the turn.

        Raises:
            ShardLockedError: Others waited for too long.
        """
        while (descriptor := lock_or_none(self._directory)) is None:
            if self._clock.monotonic_s() >= self._deadline_s:
                message = "others wait for the stream's shards already, for too long"
                raise ShardLockedError(message, path=self._directory)
            self._clock.sleep(_RETRY_S)
        self._descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the turn back."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None
