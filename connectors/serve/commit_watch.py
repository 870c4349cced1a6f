"""Waits for addresses to be committed: one thread looks, however many clients wait.

It looks at each shard that somebody waits for, more and more rarely while nothing comes, and ends
when nobody waits.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from storage_core import Clock, ShardlogError, StreamReader

_PAUSE_FIRST_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.05
# So often who waits looks whether the client is still there.
_ALIVE_EVERY_S: Final = 5.0

_Shard = tuple[StreamReader, int]


@dataclass(slots=True, eq=False)
class _Wait:
    address: int
    is_over: bool = False


class CommitWatch:
    """Who waits for what. Any thread."""

    def __init__(self, clock: Clock) -> None:
        """Begin with nobody."""
        self._clock = clock
        self._changed = threading.Condition()
        self._waits: dict[_Shard, set[_Wait]] = {}
        # How many have ever waited.
        self._came = 0
        self._is_looking = False

    def __len__(self) -> int:
        """Return how many wait."""
        with self._changed:
            return sum(map(len, self._waits.values()))

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
        key, waiting = (reader, shard), _Wait(address)
        with self._changed:
            self._waits.setdefault(key, set()).add(waiting)
            self._came += 1
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
                self._waits[key].discard(waiting)
                if not self._waits[key]:
                    del self._waits[key]
        # Its own look: whatever was wrong with the shard is this request's error.
        return reader.wait(shard, address, 0.0)

    def wake(self) -> None:
        """Have all who wait ask whether there is still a use in it."""
        with self._changed:
            self._changed.notify_all()

    def _look(self) -> None:
        pause_s = _PAUSE_FIRST_S
        came = 0
        ends: dict[_Shard, int | None] = {}
        while True:
            with self._changed:
                if not self._waits:
                    self._is_looking = False
                    return
                has_news = self._came > came
                came = self._came
                shards = tuple(self._waits)
            before, ends = ends, {shard: _committed(*shard) for shard in shards}
            # Those who wait are many, and mostly for what does not come: they are gone through only
            # where something has.
            if has_news or ends != before:
                has_news = self._end_waits(ends) or has_news
            if has_news:
                pause_s = _PAUSE_FIRST_S
            self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _end_waits(self, ends: Mapping[_Shard, int | None]) -> bool:
        """End the waits that have what they wait for, or an error; return whether there are any."""
        with self._changed:
            over = [
                waiting
                for shard, end in ends.items()
                for waiting in self._waits.get(shard, ())
                if end is None or end > waiting.address
            ]
            for waiting in over:
                waiting.is_over = True
            if over:
                self._changed.notify_all()
        return bool(over)


def _committed(reader: StreamReader, shard: int) -> int | None:
    """Return a shard's committed; None where it does not say, which who waits is told."""
    try:
        return reader.shard(shard).committed()
    except ShardlogError:
        return None
