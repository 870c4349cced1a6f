"""Jobs on machines that have neither the root nor RocksDB."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from streaming_jobs.jobs.roll_up import roll_up
from streaming_jobs.jobs.rollup.calendar import Level
from tests.spark.cluster.driver import REGISTERED_SINCE, TOKEN_FILE, settings_of
from tests.spark.cluster.lab import INTO, JOB_MAX_S
from tests.spark.support.rollup_lab import FIELD, NAME, RollupLab, readings
from tests.spark.support.session import quick_settings
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS
from tests.unit.streaming_jobs.source.source_lab import NAME as EVENTS

LEVELS: tuple[Level, ...] = ("hour", "day")


def test_rollups_are_what_all_rows_come_to(lab, driver, cluster):
    rolled = RollupLab(lab.place)
    rolled.create()
    lab.serve()
    rolled.measure(readings(random.Random(6), 200))
    checkpoint = cluster.place / f"{lab.place.name}-checkpoint"
    driver.do(roll_all_up, f"shardlog://{lab.server.address}", checkpoint, rolled.zone)
    rolled.check(LEVELS)
    rolled.close()


def roll_all_up(spark: SparkSession, root: str, checkpoint: Path, zone: str) -> None:
    query = roll_up(
        spark, root, NAME, FIELD, checkpoint=checkpoint, zone=zone, levels=LEVELS, once=True
    )
    assert query.awaitTermination(int(JOB_MAX_S)), "the job goes on"


def test_command_runs_where_shardlog_is_shipped(lab, plan, shipped, cluster):
    lab.log.create(shards=2)
    lab.log.append(20)
    # Behind the newest of its id.
    lab.log.writer.append(FIRST_MS, 3, b"99")
    lab.log.writer.commit()
    lab.serve()
    checkpoint = cluster.place / f"{lab.place.name}-checkpoint"
    arguments = ["--server", lab.server.address, EVENTS, "--into", INTO, "--once"]
    arguments += ["--checkpoint", str(checkpoint)]
    for name, value in {**quick_settings(), **settings_of(plan)}.items():
        arguments += ["--conf", f"{name}={value}"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), plan.python)
    # The PySpark of this process, where it is not the one that its Python has.
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if _has_pyspark(p)]
    if pyspark.__version__ < REGISTERED_SINCE:
        paths.append(str(shipped.archive))
    variables["PYTHONPATH"] = os.pathsep.join(paths)
    job = subprocess.run(
        [
            *(sys.executable, "-m", "streaming_jobs.jobs.drain_late"),
            *("--master", cluster.address, *arguments),
        ],
        env={**variables, TOKEN_FILE: str(plan.token_file)},
        # Where processes that run there find no shardlog but what was shipped.
        cwd=cluster.place,
        capture_output=True,
        text=True,
        timeout=JOB_MAX_S,
        check=False,
    )
    assert job.returncode == 0, job.stderr
    assert lab.landed() == [99]


def _has_pyspark(path: str) -> bool:
    return bool(path) and (Path(path) / "pyspark").is_dir()
