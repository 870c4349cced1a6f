"""A stream of its own for each test of the source, and no reader left open behind it."""

import pytest

from streaming_jobs.source.executor.open_readers import OPEN_READERS
from tests.unit.streaming_jobs.source.source_lab import SourceLab


@pytest.fixture
def lab(tmp_path):
    """A root without a stream."""
    lab = SourceLab(tmp_path / "root")
    yield lab
    OPEN_READERS.close()
    lab.close()


@pytest.fixture
def full(lab):
    """Ten rows, even numbers in shard 0, each in a block: the log may begin at any of them."""
    lab.create(block_records=1)
    lab.append(10)
    return lab
