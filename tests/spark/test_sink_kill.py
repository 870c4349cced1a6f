"""The driver dies at each moment of a batch; from its checkpoint every row lands exactly once.

A job of its own is killed with -9, JVM and workers included (dying_sink.py); the shared session
goes on where it stopped. kills.py says how many drivers die, and when; one a moment by default.
"""

import signal
import subprocess
import sys

import pytest

from tests.spark.dying_sink import AFTER, BEFORE, MOMENTS, STAGING, WITHIN
from tests.spark.kills import kills
from tests.spark.sink_lab import SinkLab
from tests.tidy.tree import ROOT

DIES_WITHIN_S = 180
# So many that the shards take them for long enough to be stopped on the way.
ROWS = {STAGING: 10, BEFORE: 10, WITHIN: 300_000, AFTER: 10}


def run_until_dead(lab: SinkLab, moment: str, batch: int) -> int:
    """Run the job in processes of its own; return how its driver ended."""
    command = [sys.executable, "-m", "tests.spark.dying_sink", str(lab.place), moment, str(batch)]
    job = subprocess.run(
        command,
        cwd=ROOT,
        check=False,
        capture_output=True,
        timeout=DIES_WITHIN_S,
    )
    return job.returncode


@pytest.mark.parametrize(("_number", "moment", "batch"), kills(MOMENTS, default=len(MOMENTS)))
def test_rows_land_once_though_the_driver_dies(spark, tmp_path, _number, moment, batch):
    lab = SinkLab(spark, tmp_path)
    rows = list(range(10, 10 + ROWS[moment]))
    batches = [rows, [1, 2, 3]] if batch == 0 else [[1, 2, 3], rows]
    for primaries in batches:
        lab.feed(*primaries)
    assert run_until_dead(lab, moment, batch) == -signal.SIGKILL
    landed = batches[: batch + (moment == AFTER)]
    assert ("manifest.json" in lab.staged) == (moment == WITHIN)
    assert lab.stored == sorted(row for primaries in landed for row in primaries)
    lab.run()
    assert (lab.stored, lab.staged) == ([1, 2, 3, *rows], [])
