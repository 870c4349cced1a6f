"""`land_topic` in a driver that is about to die: what it does up to a moment of a batch.

The moments are: staged, nothing is decided; decided, no file is in place; landed, all files are,
and the batch is not committed. The stream is in PLACE/root, the files are in PLACE/lake.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from typing_extensions import override

from streaming_jobs.jobs import land_topic as job
from streaming_jobs.jobs.landing import Landing
from tests.spark.support.source_driver import OFFSETS_A_BATCH
from tests.unit.streaming_jobs.source.source_lab import NAME

PHASES = ("staged", "decided", "landed")


def land_until(
    spark: SparkSession, place: Path, reach: Callable[[str, int], None], *servers: str
) -> None:
    """Land all there is, by path or servers; each phase of a batch is told as it is reached."""

    class Told(Landing):
        @property
        def next(self) -> int:
            return self._done()[0]

        @override
        def publish(self, ends: Mapping[int, int]) -> list[Path]:
            number = self.next
            reach("staged", number)
            landed = super().publish(ends)
            reach("landed", number)
            return landed

        @override
        def _finish(self) -> list[Path]:
            reach("decided", self.next)
            return super()._finish()

    # The job's own, told of its steps.
    setattr(job, "Landing", Told)  # noqa: B010 - its types do not export it
    root, into = servers[0] if servers else place / "root", place / "lake"
    query = job.land_topic(spark, root, NAME, into, once=True, max_rows=OFFSETS_A_BATCH)
    query.awaitTermination()
