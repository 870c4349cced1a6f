"""What this process keeps open from use to use, because opening costs more.

Tasks and commits come one after the other, and opening a shard costs as much as reading 60,000
rows. So what was opened and did well is kept: a bounded number, the one used last longest, and none
that was idle for long. Where others may wait for what is open, one thread watches for that, only
while something is open; and all is closed with the process.

Spark's Python workers are forks. What was open before a fork belongs to the parent: the fork
begins with nothing, and closes nothing of it.
"""

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from storage_core.platform.clock import Clock, SystemClock

_LOOK_EVERY_S: Final = 0.1


class Handle(Protocol):
    """What is kept open."""

    def close(self) -> None:
        """Close it."""


H = TypeVar("H", bound=Handle)


class HandlePool(Generic[H]):
    """What is open and nobody uses, by a key. Any thread; nothing is lent twice at a time."""

    def __init__(
        self,
        most: int,
        idle_s: float,
        is_wanted: Callable[[H], bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Start with none.

        Args:
            most: How many are kept.
            idle_s: For how long; with 0 nothing is kept.
            is_wanted: Tells whether another process waits for what is open; None where none does.
            clock: What measures idle time.
        """
        self._most = most
        self._idle_s = idle_s
        self._is_wanted = is_wanted
        self._clock = clock or SystemClock()
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: OrderedDict[Hashable, tuple[H, float]] = OrderedDict()
        self._is_watched = False

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._idle)

    @contextmanager
    def lease(
        self, key: Hashable, serves: Callable[[H], bool], opened: Callable[[H | None], H]
    ) -> Iterator[H]:
        """Lend what is open under a key for as long as a block lasts.

        What the block fails on is closed, since it may be the cause.

        Args:
            key: What is lent.
            serves: Tells whether what is kept will do.
            opened: Opens another; it gets what did not do, closed.
        """
        self._leave_to_parent()
        with self._lock:
            self._close_some()
            handle, _ = self._idle.pop(key, (None, 0.0))
        if handle is None or not serves(handle):
            if handle is not None:
                handle.close()
            handle = opened(handle)
        process, is_sound = self._process, False
        try:
            yield handle
            is_sound = True
        except GeneratorExit:
            # Whoever reads has enough.
            is_sound = True
            raise
        finally:
            # A block that a fork leaves is its parent's.
            if os.getpid() == process:
                self._give_back(key, handle, is_sound=is_sound)

    def close(self) -> None:
        """Close what is kept."""
        self._leave_to_parent()
        with self._lock:
            while self._idle:
                self._idle.popitem()[1][0].close()

    def _leave_to_parent(self) -> None:
        """Begin with nothing in a fork; a thread that is not in it may hold the lock."""
        if self._process != os.getpid():
            self._begin()

    def _give_back(self, key: Hashable, handle: H, *, is_sound: bool) -> None:
        with self._lock:
            if not is_sound or key in self._idle:
                handle.close()
            else:
                self._idle[key] = handle, self._clock.monotonic_s()
            self._close_some()
            if self._idle and self._is_wanted is not None and not self._is_watched:
                self._is_watched = True
                atexit.unregister(self.close)
                atexit.register(self.close)
                threading.Thread(target=self._watch, name="handle-pool", daemon=True).start()

    def _close_some(self) -> None:
        """Close what was idle for long or is waited for, and the oldest beyond the bound."""
        at_s = self._clock.monotonic_s()
        are_too_many = self._are_too_many()
        for key, (handle, since_s) in list(self._idle.items()):
            is_beyond = are_too_many or at_s - since_s >= self._idle_s
            if is_beyond or (self._is_wanted is not None and self._is_wanted(handle)):
                self._idle.pop(key)[0].close()
                are_too_many = self._are_too_many()

    def _are_too_many(self) -> bool:
        return len(self._idle) > self._most

    def _watch(self) -> None:
        while True:
            self._clock.sleep(_LOOK_EVERY_S)
            with self._lock:
                self._close_some()
                if not self._idle:
                    self._is_watched = False
                    return
