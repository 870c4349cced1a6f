"""Fixtures of the scenarios of what becomes of rows."""

from tests.events.store.conftest import bench, make_bench
from tests.log.fixtures import root

__all__ = ["bench", "make_bench", "root"]
