"""`roll_up` in a driver that is about to die: what it does up to a moment of a batch.

The moments are: measured, nothing is kept yet; half kept, the lowest level is; kept, all are, and
the batch is not committed. A test may let its own session fail at a moment instead.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from streaming_jobs.jobs import roll_up as job
from streaming_jobs.jobs.rollup.calendar import Level
from streaming_jobs.jobs.rollup.cascade import Cascade
from streaming_jobs.jobs.rollup.rollup_streams import RollupStreams
from tests.spark.support.rollup_lab import RollupLab

ROWS_A_BATCH = 150
PHASES = ("half kept", "measured", "kept")


def reporting_steps(reach: Callable[[str, int], None]) -> dict[str, Any]:
    """Return the job's own classes, by name, that report each phase of a batch as it is reached."""
    batch_number = 0

    class ToldStreams(RollupStreams):
        @override
        def write(self, spark: SparkSession, level: Level, rollups: pa.Table) -> None:
            if level == "hour":
                reach("measured", batch_number)
            if level == "day":
                reach("half kept", batch_number)
            super().write(spark, level, rollups)

    class ToldCascade(Cascade):
        @override
        def __call__(self, batch: DataFrame, number: int) -> None:
            nonlocal batch_number
            batch_number = number
            super().__call__(batch, number)
            reach("kept", batch_number)

    return {"RollupStreams": ToldStreams, "Cascade": ToldCascade}


def roll_up_until(
    spark: SparkSession, place: Path, reach: Callable[[str, int], None], *servers: str
) -> None:
    """Roll up all there is, by path or servers; each phase of a batch is told as it is reached."""
    lab = RollupLab(place)
    for name, reporting in reporting_steps(reach).items():
        setattr(job, name, reporting)
    lab.roll_up(spark, max_rows=ROWS_A_BATCH, root=servers[0] if servers else lab.root)
