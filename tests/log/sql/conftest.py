"""The doors by which SQL is asked: a root's files, or a server over it.

`place` is what a root is called by the scenario's door, `path` where it has no parameter `door`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.log.served import served


@pytest.fixture
def door() -> str:
    """By which door a scenario asks that has no parameter of this name."""
    return "path"


@pytest.fixture
def place(door: str) -> Iterator[Callable[[Path], str]]:
    """Return what a root is called; a server over it ends with the scenario."""
    with ExitStack() as serving:
        addresses: dict[Path, str] = {}

        def named(root: Path) -> str:
            if door == "path":
                return str(root)
            if root not in addresses:
                addresses[root] = serving.enter_context(served(root))
            return addresses[root]

        yield named
