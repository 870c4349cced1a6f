"""The doors by which Spark reads a stream: the path of its root, or a server over it.

Each scenario reads by path. Those of `BY_SERVER_TOO` read over a server as well, a server of this
process; all do where every case is wanted (make faults KIND=doors), but those of `BY_PATH`.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.log.served import DOORS, served
from tests.thin import every_case
from tests.unit.streaming_jobs.source.source_lab import SourceLab

# Together they come to each call that a source makes, and take some twenty seconds.
BY_SERVER_TOO: Final = frozenset[str]()
# What they show is of a path, or of a server alone.
BY_PATH: Final = frozenset[str]()
_NOT_OF_DOORS: Final = ("test_mistakes", "test_servers")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let a scenario read by one door or by both."""
    name = metafunc.function.__name__
    if metafunc.module.__name__.endswith(_NOT_OF_DOORS) or name in BY_PATH:
        return
    if name in BY_SERVER_TOO or every_case("SHARDLOG_FAULT_DOORS"):
        metafunc.parametrize("door", DOORS, indirect=True)


@pytest.fixture(autouse=True)
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the streams of a lab be read by a door; by path without a parameter."""
    with ExitStack() as serving:
        addresses: dict[Path, str] = {}

        def address_of(root: Path) -> str:
            if root not in addresses:
                addresses[root] = serving.enter_context(served(root))
            return addresses[root].removeprefix("shardlog://")

        if getattr(request, "param", "path") == "server":
            monkeypatch.setattr(SourceLab, "reached_by", staticmethod(address_of))
        yield
