"""Fixtures of the scenarios of what becomes of rows."""

from tests.events.store.conftest import make_bench
from tests.log.fixtures import root

__all__ = ["make_bench", "root"]
