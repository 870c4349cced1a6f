"""Fixtures of the scenarios of state."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.events.state.rows import StateBench
from tests.log.fixtures import root

__all__ = ["root"]


@pytest.fixture
def bench(root: Path) -> Iterator[StateBench]:
    """A store with a type of state, and one of events."""
    bench = StateBench(root / "root")
    bench.define("order", amount="int")
    yield bench
    bench.close()
