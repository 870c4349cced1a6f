"""Fixtures of the scenarios of what is remembered."""

import pytest

from tests.events.remembered.memory import Memory
from tests.events.store.conftest import make_bench
from tests.log.fixtures import root

__all__ = ["make_bench", "root"]


@pytest.fixture
def memory(make_bench) -> Memory:
    """A store with a type."""
    return Memory(make_bench())
