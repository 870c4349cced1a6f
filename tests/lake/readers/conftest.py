"""Fixtures of other readers: a stream, its table, and the command."""

from datetime import timedelta

import pytest

from tests.lake.readers.readers_lab import ReadersLab
from tests.unit.connectors.command import Shardlog, runner


@pytest.fixture
def shardlog(capsys) -> Shardlog:
    return runner(capsys)


@pytest.fixture
def lab(tmp_path):
    lab = ReadersLab(tmp_path, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()
