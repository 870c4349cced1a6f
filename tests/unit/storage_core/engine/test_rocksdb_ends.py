"""The end of a store beside its readers: nobody keeps it open, and everybody is told."""

import threading
from pathlib import Path
from typing import Any

import pytest

from storage_core import ClosedError
from storage_core.engine.rocksdb import RocksDbStore, open_store
from storage_core.engine.rocksdb_snapshot import RocksDbSnapshot
from storage_core.engine.segments import SegmentWriter
from storage_core.format.keys import FAMILY_DEFAULT
from tests.log.disks import STALL_MAX_S, BesideThread
from tests.unit.storage_core.engine.stores import key_of, put

# As long as a view waits to be overtaken by a close that does not wait for it.
OVERTAKEN_S = 0.1


class Gated:
    """A database of which an iterator is handed out late, once somebody closes it."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.interruptions = 0
        self.is_asked, self.closes = threading.Event(), threading.Event()

    def iter(self, options: Any) -> Any:
        made = self._database.iter(options)
        self.is_asked.set()
        self.closes.wait(OVERTAKEN_S)
        return made

    def close(self) -> None:
        self.closes.set()
        self.interruptions -= 1
        if self.interruptions >= 0:
            raise KeyboardInterrupt
        self._database.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def gated(path: Path) -> tuple[Gated, RocksDbStore]:
    """Open a store whose database is behind a gate."""
    database = Gated(open_store(path, "strict")._database)
    return database, RocksDbStore(path, database, segments=SegmentWriter(path))  # type: ignore[arg-type]


def test_view_that_is_being_made_does_not_outlive_its_store(path: Path):
    database, store = gated(path)
    views: list[RocksDbSnapshot] = []
    with BesideThread(lambda: views.append(store.snapshot())):
        assert database.is_asked.wait(STALL_MAX_S)
        store.close()
    with pytest.raises(ClosedError):
        views[0].at_or_after(FAMILY_DEFAULT, b"")
    open_store(path, "strict").close()


def test_iteration_that_is_under_way_does_not_outlive_its_store(store, path):
    put(store, 1, 2, 3)
    items = store.snapshot().items(FAMILY_DEFAULT, b"", None)
    assert next(items)[0] == key_of(1)
    store.close()
    open_store(path, "strict").close()
    with pytest.raises(ClosedError, match="closed while it was being read"):
        next(items)


def test_error_that_is_kept_keeps_no_store_open(store, path):
    put(store, 1)
    view = store.snapshot()
    with pytest.raises(KeyError) as raised:
        view.at_or_after(FAMILY_DEFAULT, None)
    store.close()
    open_store(path, "strict").close()
    assert raised.value.__traceback__ is not None


def test_interrupted_close_is_done_by_the_next(path):
    database, store = gated(path)
    database.interruptions = 1
    with pytest.raises(KeyboardInterrupt):
        store.close()
    store.close()
    open_store(path, "strict").close()


def test_lookups_of_many_keys_are_answered_in_their_order(store):
    put(store, *range(0, 3000, 2))
    values = store.get_many([key_of(number) for number in range(3000)])
    assert [value is not None for value in values] == [True, False] * 1500
