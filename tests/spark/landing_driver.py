"""A driver of its own, to be killed: it runs `land_topic`.

    python -m tests.spark.landing_driver PLACE PHASE BATCH

At a phase of a batch (staged: not decided; decided: no file in place; landed: all are, not yet
committed) it says so and waits for its end. The stream is in PLACE/root.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from streaming_jobs.jobs import land_topic as job
from streaming_jobs.jobs.landing import Landing
from tests.spark.session import make_session
from tests.spark.source_driver import OFFSETS_A_BATCH
from tests.unit.streaming_jobs.source.source_lab import NAME


def main(place: Path, phase: str, batch: int) -> None:
    """Land all there is, up to the phase asked for."""

    def reach(reached: str, number: int) -> None:
        if (reached, number) == (phase, batch):
            print("reached", flush=True)  # noqa: T201 - the test waits for it
            sys.stdin.read()

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
    spark, root, into = make_session(place), place / "root", place / "lake"
    query = job.land_topic(spark, root, NAME, into, once=True, max_rows=OFFSETS_A_BATCH)
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
