"""Fixtures of repairs: a stream whose table is in a directory."""

from datetime import timedelta

import pytest

from tests.lake.repair.repair_lab import RepairLab
from tests.lake.support.fixtures import bucket_store, s3_server
from tests.log.fixtures import root

__all__ = ["bucket_store", "root", "s3_server"]


@pytest.fixture
def lab(root):
    lab = RepairLab(root, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()
