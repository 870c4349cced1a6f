"""A path on other machines: whatever lies there, a query is refused, and nothing is short.

Driver and executors have all of shardlog here, and the driver has the root.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from storage_core import SystemClock
from tests.spark.cluster.driver import Driver, DriverError, Plan
from tests.spark.cluster.lab import ClusterLab, numbers, write_numbers
from tests.spark.cluster.machines import run_beside
from tests.spark.cluster.standalone import MACHINES, Standalone
from tests.thin import EVERY_CASE
from tests.unit.streaming_jobs.source.source_lab import SourceLab

ROWS = 20
# Less than four tries of a task take that wait for rows (streaming_jobs/source/executor/task.py).
REFUSED_WITHIN_S = 110.0
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def driver(cluster) -> Iterator[Driver]:
    """A driver whose Python, and that of executors, has all of shardlog."""
    tries = 4 if EVERY_CASE else 1
    driver = Driver(Plan(cluster.address, cluster.place, sys.executable, None, tries=tries))
    yield driver
    driver.end()


@pytest.fixture
def full(lab):
    lab.log.create(shards=2)
    lab.log.append(ROWS)
    return lab


def refusal(cluster: Standalone, driver: Driver, lab: ClusterLab, function=numbers) -> str:
    """Return the line in which a query is refused, soon."""
    began = CLOCK.monotonic_s()
    with pytest.raises(DriverError) as raised:
        driver.do(function, lab.options())
    assert CLOCK.monotonic_s() - began < REFUSED_WITHIN_S
    said = str(raised.value)
    assert "Traceback" not in said, said
    lines = {line for line in said.splitlines() if "the machine that has the root" in line}
    assert lines, said
    if cluster.way == "mounts":
        assert all("host machine-" in line for line in lines)
    return min(lines)


@contextmanager
def on_machines(cluster, lab, copy) -> Iterator[None]:
    """Let a directory lie at the root's path on each machine."""
    if cluster.way != "mounts":
        pytest.skip("machines have no disks of their own here")
    workers = [cluster.worker(number) for number in MACHINES]
    for worker in workers:
        run_beside(worker, ["mkdir", "-p", str(lab.place)])
        run_beside(worker, ["cp", "-a", str(copy), str(lab.log.root)])
    try:
        yield
    finally:
        # Others count on machines that have nothing.
        for worker in workers:
            run_beside(worker, ["rm", "-rf", str(lab.place)])


@pytest.mark.parametrize("function", [numbers, write_numbers])
def test_machine_without_the_root_refuses(full, driver, cluster, function):
    line = refusal(cluster, driver, full, function)
    assert f"no stream 'events' at {full.log.root}" in line


def test_machine_with_an_older_copy_refuses(full, driver, cluster):
    copy = cluster.place / f"{full.place.name}-older"
    shutil.copytree(full.log.root, copy)
    full.log.append(ROWS, first=ROWS)
    with on_machines(cluster, full, copy):
        line = refusal(cluster, driver, full)
    assert f"a copy of stream 'events' at {full.log.root}" in line


def test_machine_with_another_root_refuses(full, driver, cluster):
    other = SourceLab(cluster.place / f"{full.place.name}-other")
    other.create(shards=2)
    other.append(ROWS, first=500)
    other.close()
    with on_machines(cluster, full, other.root):
        line = refusal(cluster, driver, full)
    assert f"another root of stream 'events' at {full.log.root}" in line
