"""A driver killed with -9 in the middle of a batch: its query, restarted, sees every row once.

The driver, its JVM and its workers die together; the shared session goes on from the checkpoint.
Rows are appended before that, so the tip has moved when the batch comes again, and those that it
had are in parts alone. Every other query reads streams that match a pattern, of which one is made
before the restart. kills.py says how many drivers die, and when.
"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.kills import kills
from tests.spark.source_driver import OFFSETS_A_BATCH, ONE, PATTERN, see_all
from tests.unit.streaming_jobs.source.source_lab import SourceLab

PHASES = ("noted", "seen", "planned")
REPOSITORY = Path(__file__).parents[2]
SECONDS_MAX = 600


def driver(module, *arguments):
    """Start a driver in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.spark.{module}", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
        start_new_session=True,
    )


def kill_when_reached(process):
    ready, _, _ = select.select([process.stdout], [], [], SECONDS_MAX)
    reached = process.stdout.readline() if ready else b""
    os.killpg(process.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=SECONDS_MAX)
    assert reached == b"reached\n", said.decode()


def ledger(place):
    found = sorted((place / "ledger").glob("*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in found]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "phase", "batch"), kills(PHASES, few=1))
def test_killed_driver_sees_every_row_once(spark, tmp_path, number, phase, batch):
    subscription, batches = ((PATTERN, 6), (ONE, 5))[number % 2]
    log = SourceLab(tmp_path / "root")
    log.create(shards=2)
    log.append(4 * OFFSETS_A_BATCH)
    log.writer.seal()
    kill_when_reached(driver("source_driver", tmp_path, phase, batch, subscription))
    before = ledger(tmp_path)
    # What comes again is in parts alone by then.
    log.writer.trim()
    log.append(OFFSETS_A_BATCH, first=4 * OFFSETS_A_BATCH)
    other = SourceLab(log.root, f"{log.name}2")
    other.create(shards=2)
    other.append(OFFSETS_A_BATCH, first=5 * OFFSETS_A_BATCH)
    other.close()
    see_all(spark, tmp_path, subscription)
    after = ledger(tmp_path)
    log.close()
    assert after[: len(before)] == before
    assert sorted(row for batch in after for row in batch) == list(range(batches * OFFSETS_A_BATCH))
