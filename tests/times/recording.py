"""Where the time of a run went: wall and processor time of each test, a line a folder at the end.

Processor time is that of the process that tests and of all it started, JVMs and brokers among
them. A process that several tests share is charged to the test that runs beside it.

`SHARDLOG_TEST_TIMES=FILE` also writes a line of JSON a test.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of a line of /proc/PID/stat behind the name: the parent; utime, stime, cutime, cstime.
_PARENT, _TIMES = 1, slice(11, 15)
_LOOKS_BELOW_S = 0.1
_DEAREST = 5


def processor_s_below() -> float:
    """Return the processor time of all processes below this one, and of those they waited for."""
    times: dict[str, int] = {}
    below: dict[str, list[str]] = defaultdict(list)
    for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - a path each is dear
        # It may end meanwhile.
        with suppress(OSError):
            fields = _told_of(process).rpartition(b")")[2].split()
            times[process] = sum(map(int, fields[_TIMES]))
            below[fields[_PARENT].decode()].append(process)
    total, waiting = 0, below[str(os.getpid())]
    while waiting:
        process = waiting.pop()
        total += times[process]
        waiting += below[process]
    return total / _TICKS_PER_S


def _told_of(process: str) -> bytes:
    file = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def own_processor_s() -> float:
    """Return the processor time of this process, and of those it waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure a test with its fixtures."""
    item.stash[_BEGAN] = (time.perf_counter(), own_processor_s())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the report of the last phase say what all of them took."""
    report = yield
    if call.when == "teardown":
        began, processor = item.stash[_BEGAN]
        wall_s, cpu_s = time.perf_counter() - began, own_processor_s() - processor
        # To look at all processes takes milliseconds, as long as many a test.
        if wall_s > _LOOKS_BELOW_S:
            before, now = item.session.stash.get(_BELOW, 0.0), processor_s_below()
            item.session.stash[_BELOW] = now
            cpu_s = max(0.0, cpu_s + now - before)
        report.user_properties.append(("times", (wall_s, cpu_s)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line a folder, and the dearest tests."""
    times = {
        report.nodeid: dict(report.user_properties)["times"]
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown" and report.user_properties
    }
    if not times:
        return
    if path := os.environ.get("SHARDLOG_TEST_TIMES"):
        rows = ({"test": test, "wall": wall, "cpu": cpu} for test, (wall, cpu) in times.items())
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    folders: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for test, took in times.items():
        folders["/".join(test.split("/")[:2])].append(took)
    terminalreporter.section("where the time went")
    for folder, tests in sorted(folders.items(), key=lambda row: -sum(wall for wall, _ in row[1])):
        wall, cpu = (sum(column) for column in zip(*tests, strict=True))
        terminalreporter.write_line(
            f"{folder:<16} {len(tests):>5} tests {wall:>7.0f} s {cpu:>7.0f} s of processor time"
        )
    for test, (wall, cpu) in sorted(times.items(), key=lambda row: -row[1][0])[:_DEAREST]:
        terminalreporter.write_line(f"{wall:>7.1f} s {cpu:>7.1f} s  {test}")


_BEGAN = pytest.StashKey[tuple[float, float]]()
_BELOW = pytest.StashKey[float]()
