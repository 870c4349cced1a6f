"""Spark runs a twin of a slow task, on executors in processes of their own; rows land once."""

import os
import signal
import subprocess
import sys

import pytest

from storage_core import StreamReader
from tests.log.workbench import column_of
from tests.spark.support.twin_driver import ROWS_A_SHARD, SINK
from tests.tidy.tree import ROOT
from tests.unit.streaming_jobs.source.source_lab import SourceLab

SECONDS_MAX = 600


def run_to_its_end(place):
    """Run the driver; its cluster ends with it."""
    with (place / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.support.twin_driver", str(place)],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        driver.wait(SECONDS_MAX)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(SECONDS_MAX)
    return driver.returncode, (place / "driver.log").read_text()


@pytest.mark.slow
def test_rows_land_once_though_spark_runs_a_twin_of_a_task(tmp_path):
    log = SourceLab(tmp_path / "root")
    log.create(shards=2)
    log.append(2 * ROWS_A_SHARD)
    log.close()
    status, said = run_to_its_end(tmp_path)
    assert status == 0, said
    assert sorted(path.name for path in tmp_path.glob("attempt-*")) == ["attempt-0", "attempt-1"]
    with StreamReader.open(tmp_path / "root", SINK) as reader:
        assert sorted(column_of(reader.read(), "primary")) == list(range(2 * ROWS_A_SHARD))
