"""Fixtures of the scenarios of front ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.events.front_ends.doors import commanding
from tests.log.fixtures import bench, make_bench, root
from tests.log.serve.served import Served

__all__ = ["bench", "make_bench", "root"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose store has a type, for scenarios that need no store of their own."""
    root: Path = tmp_path_factory.mktemp("events")
    with commanding(root) as served:
        define = b'DEFINE order FIELDS { amount: "int", note: "string | null" }'
        assert served.post("/command", define)[0] == 200
        yield served
