"""The doors by which scenarios read: a stream's files, or a server over its root."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from storage_core import StreamReader
from tests.log.served import opened_by
from tests.log.workbench import Workbench


@pytest.fixture
def door() -> str:
    """By which door a scenario reads that has no parameter of this name."""
    return "path"


@pytest.fixture
def read_beside(door: str) -> Iterator[Callable[[Workbench], StreamReader]]:
    """Opens a reader of a workbench's stream by the scenario's door; closed at its end."""
    with ExitStack() as opened:
        yield lambda bench: opened.enter_context(opened_by(door, bench.root, bench.name))
