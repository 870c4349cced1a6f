"""The driver dies at each moment of a batch; from its checkpoint every row lands exactly once.

A job of its own is killed with -9, JVM and workers included (dying_sink.py); the shared session
goes on where it stopped. kills.py says how many drivers die, and when; of all tests one while rows
land and one behind that. Half of the jobs write by a schema, which is kept exactly where its rows
are.
"""

import signal
import subprocess
import sys

import pytest

from storage_core import StreamReader
from tests.spark.dying_sink import AFTER, BEFORE, MOMENTS, STAGING, WITHIN
from tests.spark.kills import kills
from tests.spark.sink_lab import NAME, SinkLab
from tests.tidy.tree import ROOT

DIES_WITHIN_S = 600
# So many that a shard has written some of them before it syncs.
ROWS = {STAGING: 10, BEFORE: 10, WITHIN: 300_000, AFTER: 10}


# A value that is no record is written from the column that holds it as bytes, too.
BY_SCHEMA = {"valueFormat": "avro", "writerSchema": '"bytes"'}


def run_until_dead(lab: SinkLab, moment: str, batch: int, options: dict[str, str]) -> int:
    """Run the job in processes of its own; return how its driver ended."""
    given = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "tests.spark.dying_sink", str(lab.place), moment, str(batch)]
    command += given
    job = subprocess.run(
        command,
        cwd=ROOT,
        check=False,
        capture_output=True,
        timeout=DIES_WITHIN_S,
    )
    return job.returncode


def schemas_of(lab: SinkLab) -> tuple[int, int]:
    """Return how many schemas are kept, and of how many rows."""
    with StreamReader.open(lab.root, NAME) as reader:
        rows = reader.read(columns=["schema_id"])
        return len(reader.schemas()), rows.num_rows - rows.column(0).null_count


@pytest.mark.parametrize(("number", "moment", "batch"), kills(MOMENTS, few=2))
def test_rows_land_once_though_the_driver_dies(spark, tmp_path, number, moment, batch):
    options = BY_SCHEMA if (number + number // 4) % 2 else {}
    lab = SinkLab(spark, tmp_path)
    rows = list(range(10, 10 + ROWS[moment]))
    batches = [rows, [1, 2, 3]] if batch == 0 else [[1, 2, 3], rows]
    for primaries in batches:
        lab.feed(*primaries)
    assert run_until_dead(lab, moment, batch, options) == -signal.SIGKILL
    landed = [row for primaries in batches[: batch + (moment == AFTER)] for row in primaries]
    assert ("manifest.json" in lab.staged) == (moment == WITHIN)
    assert lab.stored == sorted(landed)
    assert schemas_of(lab) == ((1, len(landed)) if landed and options else (0, 0))
    lab.run(**options)
    assert (lab.stored, lab.staged) == ([1, 2, 3, *rows], [])
    assert schemas_of(lab) == ((1, 3 + len(rows)) if options else (0, 0))
