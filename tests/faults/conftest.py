"""Fixtures of the fault tests: a lossy disk, and the rule for machines without FUSE."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.lossy.mount import LossyMount, missing_fuse


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs FUSE where there is none, unless SHARDLOG_REQUIRE_FUSE=1 forbids it."""
    missing = missing_fuse()
    if missing is None or os.environ.get("SHARDLOG_REQUIRE_FUSE") == "1":
        return
    for item in items:
        if item.get_closest_marker("fuse"):
            item.add_marker(pytest.mark.skip(reason=missing))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line that says what was not run."""
    skipped = [
        report.nodeid
        for report in terminalreporter.stats.get("skipped", [])
        if "fuse" in getattr(report, "keywords", {})
    ]
    if skipped:
        files = sorted({nodeid.split("::")[0] for nodeid in skipped})
        terminalreporter.write_line(
            f"NOT RUN, {missing_fuse()}: {len(skipped)} fault tests of {', '.join(files)}"
        )


@pytest.fixture(scope="session")
def _mount() -> Iterator[LossyMount]:
    missing = missing_fuse()
    assert missing is None, f"SHARDLOG_REQUIRE_FUSE=1, but {missing}"
    with tempfile.TemporaryDirectory() as folder, LossyMount(Path(folder) / "disk") as mount:
        yield mount


@pytest.fixture
def disk(_mount: LossyMount) -> LossyMount:
    """An empty lossy disk without faults."""
    _mount.format()
    return _mount
