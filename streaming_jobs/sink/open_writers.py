"""Streams that a commit process keeps open between two commits, because opening costs more.

Spark runs the commits of a session in a few Python processes and uses each again. A stream is
let go after some idle seconds, as soon as another process waits for its shards, and with the
process. One thread a process looks after that, only while there is something open.
"""

import atexit
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from storage_core import Clock, ShardlogError, StagingArea, Stream, SystemClock

IDLE_S: Final = 3.0
OPEN_MAX: Final = 4
_LOOK_EVERY_S: Final = 0.1

Place = tuple[str, str]


@dataclass(slots=True)
class _Held:
    area: StagingArea
    stream: Stream
    shards: frozenset[int]
    used_at_s: float


class OpenWriters:
    """The streams open in this process. Any thread; one lends at a time."""

    def __init__(self, idle_s: float, clock: Clock | None = None) -> None:
        """Start with none; with no idle time each is let go at once."""
        self._idle_s = idle_s
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._held: dict[Place, _Held] = {}
        self._watcher: threading.Thread | None = None
        self._closes_at_exit = False

    @contextmanager
    def lend(
        self,
        place: Place,
        area: StagingArea,
        shards: Iterable[int],
        wait_s: float,
        purpose: str = "",
    ) -> Iterator[Stream]:
        """Lend a stream with these shards open, and perhaps more.

        Raises:
            ShardLockedError: Another writer kept a shard for too long.
        """
        with self._lock:
            held = self._open(place, area, frozenset(shards), wait_s, purpose)
            keeps = False
            try:
                yield held.stream
                keeps = self._idle_s > 0 and not area.somebody_waits()
            finally:
                held.used_at_s = self._clock.monotonic_s()
                if keeps:
                    self._watch()
                else:
                    self._let_go(place)

    def close(self) -> None:
        """Let go of all."""
        with self._lock:
            for place in list(self._held):
                self._let_go(place)
            self._ended.set()
            self._watcher = None

    def _open(
        self,
        place: Place,
        area: StagingArea,
        shards: frozenset[int],
        wait_s: float,
        purpose: str,
    ) -> _Held:
        held = self._held.get(place)
        if held is not None:
            if held.area.incarnation == area.incarnation and shards <= held.shards:
                return held
            self._let_go(place)
            if held.area.incarnation == area.incarnation:
                shards |= held.shards
        while len(self._held) >= OPEN_MAX:
            self._let_go(min(self._held, key=lambda one: self._held[one].used_at_s))
        stream = area.open_shards(Stream.open, shards, wait_s, purpose)
        held = _Held(area, stream, shards, self._clock.monotonic_s())
        self._held[place] = held
        return held

    def _let_go(self, place: Place) -> None:
        held = self._held.pop(place)
        # All that was committed is durable; an error of closing says nothing about it.
        with suppress(ShardlogError):
            held.stream.close()

    def _watch(self) -> None:
        if not self._closes_at_exit:
            atexit.register(self.close)
            self._closes_at_exit = True
        if self._watcher is None:
            self._ended.clear()
            self._watcher = threading.Thread(
                target=self._look_after, name="shardlog-open-writers", daemon=True
            )
            self._watcher.start()

    def _look_after(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            if self._lock.acquire(blocking=False):
                try:
                    self._let_go_of_idle()
                    if not self._held:
                        self._watcher = None
                        return
                finally:
                    self._lock.release()

    def _let_go_of_idle(self) -> None:
        now_s = self._clock.monotonic_s()
        for place, held in list(self._held.items()):
            if now_s - held.used_at_s >= self._idle_s or _somebody_waits(held.area):
                self._let_go(place)


def _somebody_waits(area: StagingArea) -> bool:
    try:
        return area.somebody_waits()
    except (ShardlogError, OSError):
        # The stream's directory is gone; there is nothing to keep.
        return True
