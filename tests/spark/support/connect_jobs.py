"""Jobs as a client of Spark Connect calls them (connect_client.py)."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streaming_jobs.jobs.drain_late import drain_late
from streaming_jobs.jobs.land_topic import land_topic
from streaming_jobs.jobs.roll_up import roll_up
from tests.spark.support.connect_client import ended
from tests.spark.support.lab import NAME
from tests.spark.support.rollup_lab import FIELD
from tests.spark.support.rollup_lab import NAME as READINGS


def run_jobs(spark: SparkSession, place: Path, root: str, servers: str) -> list[int]:
    """Land a stream in its table, write its late rows as corrections, and roll readings up.

    Returns:
        The numbers that have landed.
    """
    landed = land_topic(spark, root, NAME, place / "lake").select("payload").collect()
    numbers = sorted(int(row.payload) for row in landed)
    ended(drain_late(spark, servers, NAME, checkpoint=place / "late", once=True))
    rolling: dict[str, Any] = {"levels": "hour", "zone": "Europe/Berlin", "once": True}
    ended(roll_up(spark, root, READINGS, FIELD, checkpoint=place / "rolled", **rolling))
    return numbers
