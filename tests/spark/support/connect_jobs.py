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

_ROWS_A_BATCH = 7


def run_jobs(spark: SparkSession, place: Path, root: str, servers: str) -> None:
    """Land a stream as files, write its late rows as corrections, and roll readings up."""
    landing: dict[str, Any] = {"once": True, "max_rows": _ROWS_A_BATCH}
    ended(land_topic(spark, servers, NAME, place / "lake", **landing))
    ended(drain_late(spark, servers, NAME, checkpoint=place / "late", once=True))
    rolling: dict[str, Any] = {"levels": "hour", "zone": "Europe/Berlin", "once": True}
    ended(roll_up(spark, root, READINGS, FIELD, checkpoint=place / "rolled", **rolling))
