"""What every test shares: how properties are searched, and asserts that explain themselves.

Hypothesis searches at random on every run, in CI too; what it finds is replayed with the blob that
it prints, or with `--hypothesis-seed`. Disks stall, so no example has a deadline, and how fast a
crowded machine draws examples, or how large they come, fails none.
"""

import gc
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import examples
from tests.groups import group_of, pytest_xdist_make_scheduler
from tests.times.recording import (
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_terminal_summary",
    "pytest_xdist_make_scheduler",
]

pytest.register_assert_rewrite("tests.lab", "tests.model")
pytest.register_assert_rewrite("tests.faults.support.ledger", "tests.faults.support.cold_rows")

settings.register_profile(
    "shardlog",
    max_examples=examples(100),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("shardlog")


class _Collector:
    """Lets no forked child collect what tests have left behind.

    A producer of librdkafka, for one, waits for threads that the child does not have.
    """

    def __init__(self) -> None:
        self._was_enabled = True
        os.register_at_fork(before=self._pause, after_in_parent=self._go_on)

    def _pause(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def _go_on(self) -> None:
        if self._was_enabled:
            gc.enable()


_COLLECTOR = _Collector()

# What takes long, the longest first; of each folder the groups, such as those of Spark's tests.
LONG = (
    *(
        "tests/spark/",
        "tests/versions/",
        "tests/model/",
        "tests/deploy/",
        "tests/broker/",
        "tests/faults/",
    ),
    *("tests/log/parts/", "tests/log/sql/", "tests/log/export/", "tests/lake/", "tests/events/"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process works on it alone at the end."""

    def rank(item: pytest.Item) -> tuple[int, bool]:
        folders = (place for place, folder in enumerate(LONG) if item.nodeid.startswith(folder))
        return next(folders, len(LONG)), group_of(item.nodeid) == item.nodeid

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Let the garbage collector pass over the modules and items there are: they stay to the end.

    It would walk millions of objects each time, which was a tenth of what the unit tests take.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _who_is_started_hears_signals() -> None:
    """Let SIGHUP and SIGINT do what they usually do, here and in what is started.

    Under nohup, or as a shell's job in the background, all would ignore them. A function as the
    handler, unlike SIG_IGN, is not handed down.
    """
    handlers = {signal.SIGHUP: lambda *_: None, signal.SIGINT: signal.default_int_handler}
    for number, handler in handlers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
