"""Waits for addresses to be committed: one thread looks, however many clients wait.

It looks at each shard that somebody waits for, more and more rarely while nothing comes, and ends
when nobody waits.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from storage_core import Clock, ShardlogError, StreamReader

_PAUSE_FIRST_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.04
# So often who waits looks whether the client is still there.
_ALIVE_EVERY_S: Final = 5.0

_Shard = tuple[StreamReader, int]


@dataclass(slots=True, eq=False)
class _Wait:
    reader: StreamReader
    shard: int
    address: int
    is_over: bool = False


class CommitWatch:
    """Who waits for what. Any thread."""

    def __init__(self, clock: Clock) -> None:
        """Begin with nobody."""
        self._clock = clock
        self._changed = threading.Condition()
        self._waits: set[_Wait] = set()
        self._is_looking = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waits)

    def wait(
        self,
        reader: StreamReader,
        shard: int,
        address: int,
        timeout: float,
        is_ended: Callable[[], bool],
    ) -> bool:
        """Sleep until an address is committed; return whether it is.

        Args:
            reader: The stream's.
            shard: The shard's number.
            address: The address awaited.
            timeout: The longest to wait, in seconds.
            is_ended: Asked every few seconds, and when the server ends, whether there is no use in
                waiting any more.
        """
        if reader.wait(shard, address, 0.0):
            return True
        until_s = self._clock.monotonic_s() + timeout
        waiting = _Wait(reader, shard, address)
        with self._changed:
            self._waits.add(waiting)
            if not self._is_looking:
                thread = threading.Thread(target=self._look, name="shardlog-watch", daemon=True)
                with suppress(RuntimeError):
                    # Where the system gives no thread, the next who waits tries again.
                    thread.start()
                    self._is_looking = True
        try:
            while not waiting.is_over:
                remaining_s = until_s - self._clock.monotonic_s()
                if remaining_s <= 0 or is_ended():
                    break
                with self._changed:
                    if not waiting.is_over:
                        self._changed.wait(min(remaining_s, _ALIVE_EVERY_S))
        finally:
            with self._changed:
                self._waits.discard(waiting)
        # Its own look: whatever was wrong with the shard is this request's error.
        return reader.wait(shard, address, 0.0)

    def wake(self) -> None:
        """Have all who wait ask whether there is still a use in it."""
        with self._changed:
            self._changed.notify_all()

    def _look(self) -> None:
        pause_s = _PAUSE_FIRST_S
        before = 0
        while True:
            with self._changed:
                waits = list(self._waits)
                if not waits:
                    self._is_looking = False
                    return
            has_news = len(waits) > before
            before = len(waits)
            ends: dict[_Shard, int | None] = {}
            for waiting in waits:
                key = (waiting.reader, waiting.shard)
                if key not in ends:
                    ends[key] = _committed(*key)
                end = ends[key]
                if end is None or end > waiting.address:
                    waiting.is_over = has_news = True
            if has_news:
                with self._changed:
                    self._changed.notify_all()
                pause_s = _PAUSE_FIRST_S
            self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _committed(reader: StreamReader, shard: int) -> int | None:
    """Return a shard's committed; None where it does not say, which who waits is told."""
    try:
        return reader.shard(shard).committed()
    except ShardlogError:
        return None
