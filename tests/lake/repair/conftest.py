"""Fixtures of repairs: a stream whose table is in a directory."""

from datetime import timedelta

import pytest

from tests.lake.repair.repair_lab import RepairLab
from tests.log.fixtures import root

__all__ = ["root"]


@pytest.fixture
def lab(root):
    lab = RepairLab(root, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()
