"""Segments to which nothing durable refers, kept for the views that may still read them.

A view shows its moment, of RocksDB's files as of segments. Those that are never removed, since the
process ends before, the next opening removes.
"""

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from storage_core.store.rocks_view import RocksView
from storage_core.store.segments import segment_path


class UnseenSegments:
    """The segments of one store that go once nobody sees them. Any thread may call it."""

    def __init__(self, store: Path) -> None:
        """Start with none."""
        self._store = store
        self._lock = threading.Lock()
        self._waiting: list[tuple[Sequence[int], WeakSet[RocksView]]] = []

    def add(self, numbers: Sequence[int], views: Iterable[RocksView]) -> None:
        """Take segments that no view sees but those that are open among these."""
        with self._lock:
            self._waiting.append((numbers, WeakSet(view for view in views if view.is_open)))
        self.remove()

    def remove(self) -> None:
        """Remove those that nobody sees any more."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for numbers, views in waiting:
                if any(view.is_open for view in views):
                    self._waiting.append((numbers, views))
                else:
                    remove_segments(self._store, numbers)


def remove_segments(store: Path, numbers: Iterable[int]) -> None:
    """Remove segments; one that the system does not let go is left to the next opening."""
    for number in numbers:
        with suppress(OSError):
            segment_path(store, number).unlink(missing_ok=True)
