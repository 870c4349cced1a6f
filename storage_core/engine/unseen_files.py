"""Files to which nothing durable refers, segments and parts, kept for views that may read them.

A view shows its moment, of RocksDB's files as of others. What the system does not let go is tried
again whenever something goes, with each turn of maintenance, and at the end. Those that are never
removed, since the process ends before, are swept later: segments by the next opening, parts by the
first turn of maintenance behind it.
"""

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from weakref import WeakSet

from storage_core.engine.rocks_view import RocksView
from storage_core.engine.segments import segment_path


class UnseenFiles:
    """The files of one store that go once nobody sees them. Any thread may call it."""

    def __init__(self, store: Path) -> None:
        """Start with none."""
        self._store = store
        self._lock = threading.Lock()
        self._waiting: list[tuple[Sequence[Path], WeakSet[RocksView]]] = []
        self._refused: list[Path] = []

    def add(
        self, segments: Iterable[int], files: Iterable[Path], views: Iterable[RocksView]
    ) -> None:
        """Take segments and files that no view sees but those that are open among these.

        What the system refused to remove before is tried again.
        """
        gone = [*(segment_path(self._store, number) for number in segments), *files]
        with self._lock:
            refused, self._refused = self._refused, []
            if refused:
                self._waiting.append((refused, WeakSet()))
            if gone:
                self._waiting.append((gone, WeakSet(view for view in views if view.is_open)))
        self.remove()

    def remove(self) -> None:
        """Remove those that nobody sees any more."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for files, views in waiting:
                if any(view.is_open for view in views):
                    self._waiting.append((files, views))
                else:
                    self._refused += [file for file in files if not _is_removed(file)]

    def end(self) -> None:
        """Try those for the last time, with no view open; the next opening sweeps what stays."""
        self.add((), (), ())
        # Whoever has the shard behind this may give their names anew.
        self._refused = []


def _is_removed(file: Path) -> bool:
    """Remove a file; tell whether the system let it go."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return False
    return True
