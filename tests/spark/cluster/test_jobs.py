"""`roll_up` on machines that have neither the root nor RocksDB."""

import random
from pathlib import Path

from pyspark.sql import SparkSession

from streaming_jobs.jobs.roll_up import roll_up
from streaming_jobs.jobs.rollup.calendar import Level
from tests.spark.cluster.lab import JOB_MAX_S
from tests.spark.support.rollup_lab import FIELD, NAME, RollupLab, readings

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
