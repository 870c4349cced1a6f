"""No test is begun behind a moment: what `make quick` picked runs in the order it was named.

A plugin of pytest, in each of its processes. Tests that time ran out for are counted and told, not
reported: they neither passed nor failed.
"""

import time
from pathlib import PurePosixPath
from typing import Any, Final

import pytest

_NOT_BEGUN: Final = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the moment, by the monotonic clock that all processes of a machine share."""
    parser.addoption("--begin-until", type=float, required=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the order in which files and folders were named; that within them stays random."""
    order = {name: place for place, name in enumerate(config.args)}

    def place(item: pytest.Item) -> int:
        path = PurePosixPath(item.nodeid.partition("::")[0])
        names = (one.as_posix() for one in (path, *path.parents))
        return next((order[name] for name in names if name in order), len(order))

    items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Pass a test over where it is too late to begin it."""
    if time.monotonic() < item.config.getoption("begin_until"):
        return None
    stash = item.config.stash
    stash[_NOT_BEGUN] = stash.get(_NOT_BEGUN, 0) + 1
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["not_begun"] = session.config.stash.get(_NOT_BEGUN, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the count of a process that has ended."""
    stash, output = node.config.stash, getattr(node, "workeroutput", {})
    stash[_NOT_BEGUN] = stash.get(_NOT_BEGUN, 0) + output.get("not_begun", 0)


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Say how many there were."""
    if count := config.stash.get(_NOT_BEGUN, 0):
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(f"left out: {count} tests that time ran out for; make test runs them")
