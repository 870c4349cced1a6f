"""Fixtures of heads runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lake.heads.heads_lab import HeadsLab
from tests.lake.publish.owner_fixtures import lake, owners
from tests.lake.support.fixtures import bucket_store, s3_server
from tests.log.fixtures import root

__all__ = ["bucket_store", "lab", "lake", "owners", "root", "s3_server"]


@pytest.fixture
def lab(root: Path) -> Iterator[HeadsLab]:
    """A copy of a topic whose table is in a directory."""
    lab = HeadsLab(root)
    yield lab
    lab.release()
