"""Passes over a worker's shards: every so often, on a thread of their own, one after the other.

Fetching, gathering and rounds go on beside it; a round waits for it no longer than for one write.
A shard that is closed meanwhile is skipped, and one that is busy comes again with the next pass.
What fails is that shard's alone: if its disk fails, the next round finds it poisoned. Where shards
are done together, as those of a topic, that is so of all of them.

Belongs to the worker's thread; its own thread touches streams only.
"""

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from queue import SimpleQueue
from typing import Generic, TypeVar

from storage_core import ClosedError, ShardlogError, Stream

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")


class BackgroundPasses(Generic[K, V, R]):
    """Does something to the worker's shards, a pass at a time."""

    def __init__(self, name: str, every_s: float, do: Callable[[K, V], R]) -> None:
        """Wait for the first pass.

        Args:
            name: What the thread is called.
            every_s: The time between the starts of two passes; 0 for none at all.
            do: What is done to each, mostly a partition and its stream.
        """
        self._name = name
        self._every_s = every_s
        self._do = do
        self._begun_s: float | None = None
        self._is_owed = False
        self._thread: threading.Thread | None = None
        self._outcomes: SimpleQueue[tuple[K, R | ShardlogError | OSError]] = SimpleQueue()

    def is_due(self, now_s: float, every_s: float | None = None) -> bool:
        """Tell whether a pass is to start, and count its time from now if so.

        Args:
            now_s: The time.
            every_s: The time between two passes, where they are to come more often now.
        """
        if not self._every_s or self.is_under_way:
            return False
        if self._begun_s is None:
            self._begun_s = now_s
        wait_s = self._every_s if every_s is None else every_s
        if now_s - self._begun_s < wait_s and not self._is_owed:
            return False
        self._begun_s, self._is_owed = now_s, False
        return True

    def hasten(self) -> None:
        """Have the next pass due as soon as none is under way."""
        self._is_owed = True

    def start(self, shards: Mapping[K, V]) -> None:
        """Start a pass over some shards."""
        if shards:
            # A daemon: the end of a process does not wait for a disk that hangs.
            self._thread = threading.Thread(
                target=self._skip, args=(shards,), name=self._name, daemon=True
            )
            self._thread.start()

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is."""
        return self._thread is not None and self._thread.is_alive()

    def outcomes(self) -> Iterator[tuple[K, R | ShardlogError | OSError]]:
        """Yield what came of the shards that were done since."""
        while not self._outcomes.empty():
            yield self._outcomes.get()

    def settle(self, wait_s: float) -> None:
        """Wait for the pass under way, for so long."""
        if self._thread is not None:
            self._thread.join(wait_s)

    def _skip(self, shards: Mapping[K, V]) -> None:
        for key, value in shards.items():
            try:
                self._outcomes.put((key, self._do(key, value)))
            except ClosedError:
                continue
            except (ShardlogError, OSError) as error:
                self._outcomes.put((key, error))


def every_of(every_s: float, streams: Iterable[Stream]) -> float:
    """Return how often a pass comes, where rows of some streams are to be in a lake by then.

    Args:
        every_s: How often it comes in any case.
        streams: Those whose shards it is over.
    """
    lags = (each.options.lake_lag for each in streams if each.options.lake is not None)
    return min([every_s, *(lag.total_seconds() for lag in lags)])
