"""A driver of its own, to be killed: it runs `roll_up` over a lab's readings.

    python -m tests.spark.rollup_driver PLACE PHASE BATCH

At a phase of a batch (measured: nothing kept yet; half kept: the lowest level is; kept: all are,
not yet committed) it says so and waits for its end. It ends by itself once all is rolled up.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from streaming_jobs.jobs import roll_up as job
from streaming_jobs.jobs.calendar import Level
from streaming_jobs.jobs.cascade import Cascade
from streaming_jobs.jobs.rollup_streams import RollupStreams
from tests.spark.rollup_lab import RollupLab
from tests.spark.session import make_session

ROWS_A_BATCH = 150
PHASES = ("half kept", "measured", "kept")


def main(place: Path, phase: str, batch: int) -> None:
    """Roll up all there is, up to the phase asked for."""
    at = 0

    def reach(reached: str) -> None:
        if (reached, at) == (phase, batch):
            print("reached", flush=True)  # noqa: T201 - the test waits for it
            sys.stdin.read()

    class ToldStreams(RollupStreams):
        @override
        def write(self, spark: SparkSession, level: Level, rollups: pa.Table) -> None:
            if level == "hour":
                reach("measured")
            if level == "day":
                reach("half kept")
            super().write(spark, level, rollups)

    class ToldCascade(Cascade):
        @override
        def __call__(self, batch: DataFrame, number: int) -> None:
            nonlocal at
            at = number
            super().__call__(batch, number)
            reach("kept")

    # The job's own, told of their steps.
    replaced: dict[str, Any] = {"RollupStreams": ToldStreams, "Cascade": ToldCascade}
    for name, told in replaced.items():
        setattr(job, name, told)
    RollupLab(place).roll_up(make_session(place / "spark"), max_rows=ROWS_A_BATCH)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
