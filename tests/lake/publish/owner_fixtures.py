"""Fixtures of owners, for whatever folder imports them into its conftest.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lake.publish.owners_lab import Owners
from tests.lake.support.stores import DirectoryStore


@pytest.fixture
def lake(root: Path) -> DirectoryStore:
    """Where the one table is."""
    return DirectoryStore(root)


@pytest.fixture
def owners(root: Path, lake: DirectoryStore) -> Iterator[Owners]:
    """Owners of one partition, none yet, and their table."""
    owners = Owners(root, lake.target())
    yield owners
    for owner in owners.all:
        owner.copy.release()
