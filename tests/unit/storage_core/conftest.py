"""Fixtures of the log's unit tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_core.engine.rocksdb import RocksDbStore, open_store
from tests.log.fixtures import bench, disk, hooked, lasting_bench, make_bench, root

__all__ = ["bench", "disk", "hooked", "lasting_bench", "make_bench", "root"]


@pytest.fixture
def path(root: Path) -> Path:
    """Where a bare store may be made."""
    return root / "db"


@pytest.fixture
def store(path: Path) -> Iterator[RocksDbStore]:
    """A bare store, open for writing."""
    store = open_store(path, "strict")
    yield store
    store.close()
