"""Obsolete segments and part files, deleted once no open snapshot may read them.

Nothing durable refers to them. What the system refuses to delete is tried again with the next
obsolete file, in each maintenance run, and when the store closes. What a crash leaves is deleted
later: segments by the next opening, parts by its first maintenance run.
"""

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from weakref import WeakSet

from storage_core.engine.rocksdb_snapshot import RocksDbSnapshot
from storage_core.engine.segments import segment_path


class ObsoleteFiles:
    """The obsolete files of one store. Any thread may call it."""

    def __init__(self, store: Path) -> None:
        """Start with none."""
        self._store = store
        self._lock = threading.Lock()
        self._in_use: list[tuple[Sequence[Path], WeakSet[RocksDbSnapshot]]] = []
        self._undeletable: list[Path] = []

    def add(
        self, segments: Iterable[int], files: Iterable[Path], snapshots: Iterable[RocksDbSnapshot]
    ) -> None:
        """Delete segments and files once the snapshots that are open now are closed.

        What the system refused to delete before is tried again.
        """
        gone = [*(segment_path(self._store, number) for number in segments), *files]
        with self._lock:
            undeletable, self._undeletable = self._undeletable, []
            if undeletable:
                self._in_use.append((undeletable, WeakSet()))
            if gone:
                open_now = (snapshot for snapshot in snapshots if snapshot.is_open)
                self._in_use.append((gone, WeakSet(open_now)))
        self.delete_unused()

    def delete_unused(self) -> None:
        """Delete the files that no open snapshot may read."""
        if not self._in_use:
            return
        with self._lock:
            in_use, self._in_use = self._in_use, []
            for files, snapshots in in_use:
                if any(snapshot.is_open for snapshot in snapshots):
                    self._in_use.append((files, snapshots))
                else:
                    self._undeletable += [file for file in files if not _is_deleted(file)]

    def delete_rest(self) -> None:
        """Try for the last time, with no snapshot open."""
        self.add((), (), ())
        # The next writer of the shard may use their names again.
        self._undeletable = []


def _is_deleted(file: Path) -> bool:
    """Delete a file; return False if the system refuses."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return False
    return True
