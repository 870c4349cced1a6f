"""Which drivers die, and when: SHARDLOG_FAULT_SPARK_KILLS of each kind, else few, or one a moment.

They are spread over the moments of a batch first, then over the second batch and the first. A
driver runs what doomed_driver.py says; the first of each kind die together.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.thin import rounds
from tests.tidy.tree import ROOT
from tests.waiting import await_that

VARIABLE = "SHARDLOG_FAULT_SPARK_KILLS"
BATCHES = 2
DIES_WITHIN_S = 600.0
# Its process ends the driver.
SINK = "write"
_T = TypeVar("_T")


def kills(moments: tuple[_T, ...], few: int) -> list[tuple[int, _T, int]]:
    """Return the kills as (number, moment, one of two batches); in a run of all tests so many."""
    count = rounds(VARIABLE, few, many=len(moments))
    return [
        (number, moments[number % len(moments)], (1 + number // len(moments)) % BATCHES)
        for number in range(count)
    ]


def reached_file(place: Path, name: str) -> Path:
    """Return the file that tells that a job is at its moment."""
    return place / f"reached {name}"


def kill_driver(place: Path, plan: Mapping[str, list[Any]]) -> None:
    """Run a driver until each of its jobs is at its moment, and it was killed there."""
    files = [reached_file(place, name) for name in plan]
    for file in files:
        file.unlink(missing_ok=True)
    is_killed_by_a_sink = any(kind == SINK for kind, *_ in plan.values())
    said = place / "driver.log"
    with said.open("wb") as log:
        driver = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.spark.support.doomed_driver",
                str(place),
                json.dumps(plan),
            ],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            start_new_session=True,
        )

    def is_over() -> bool:
        ended = driver.poll() is not None
        return ended or (not is_killed_by_a_sink and all(file.exists() for file in files))

    try:
        await_that(is_over, "each job at its moment", DIES_WITHIN_S)
    finally:
        # Of one that a sink has killed, its JVM's launcher may be left.
        if driver.poll() is None or is_killed_by_a_sink:
            kill_group(driver.pid)
    assert driver.wait() == -signal.SIGKILL, said.read_text()
    assert all(file.exists() for file in files), said.read_text()


def kill_group(group: int) -> None:
    """Kill what is left of a group of processes."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
