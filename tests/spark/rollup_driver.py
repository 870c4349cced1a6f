"""A driver of its own, to be killed: it runs `roll_up` over a lab's readings.

    python -m tests.spark.rollup_driver PLACE PHASE BATCH

At a phase of a batch (measured: nothing kept yet; half kept: the lowest level is; kept: all are,
not yet committed) it says so and waits for its end. It ends by itself once all is rolled up. A test
may let its own session fail at a phase instead.
"""

import sys
from collections.abc import Callable
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


def reporting_steps(reach: Callable[[str, int], None]) -> dict[str, Any]:
    """Return the job's own classes, by name, that report each phase of a batch as it is reached."""
    at = 0

    class ToldStreams(RollupStreams):
        @override
        def write(self, spark: SparkSession, level: Level, rollups: pa.Table) -> None:
            if level == "hour":
                reach("measured", at)
            if level == "day":
                reach("half kept", at)
            super().write(spark, level, rollups)

    class ToldCascade(Cascade):
        @override
        def __call__(self, batch: DataFrame, number: int) -> None:
            nonlocal at
            at = number
            super().__call__(batch, number)
            reach("kept", at)

    return {"RollupStreams": ToldStreams, "Cascade": ToldCascade}


def main(place: Path, phase: str, batch: int) -> None:
    """Roll up all there is, up to the phase asked for."""

    def reach(reached: str, number: int) -> None:
        if (reached, number) == (phase, batch):
            print("reached", flush=True)  # noqa: T201 - the test waits for it
            sys.stdin.read()

    for name, reporting in reporting_steps(reach).items():
        setattr(job, name, reporting)
    RollupLab(place).roll_up(make_session(place / "spark"), max_rows=ROWS_A_BATCH)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
