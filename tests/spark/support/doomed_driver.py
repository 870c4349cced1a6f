"""A driver that runs several jobs, each up to one moment, and dies by -9 once all are there.

    python -m tests.spark.support.doomed_driver PLACE PLAN    as '{"source": ["see", "seen", 1, …]}'

To start a JVM takes longer than all of these jobs, so one driver dies with all of them. The plan
has the kind of each (KINDS), its moment, of which batch, and what it needs to know besides; its
streams lie in the directory of its name. At its moment a job leaves a file and waits for the end.
Of several sinks the first one ends all, in a process of its own; without any the test does
(kills.py). A driver that ends by itself says why.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from tests.spark.support.dying_sink import DyingSink, End, write_until
from tests.spark.support.kills import SINK, reached_file
from tests.spark.support.rollup_driver import roll_up_until
from tests.spark.support.session import make_session
from tests.spark.support.source_driver import see_until

KINDS: dict[str, Callable[..., None]] = {
    "see": see_until,
    "roll up": roll_up_until,
}
# One more for each job: a sink that waits within a task keeps its place.
MASTER = "local[6,4]"


def reaching(file: Path, moment: str, batch: int) -> Callable[[str, int], None]:
    """Return what a job tells its moments to; at the one asked for it waits for the end."""

    def reach(reached: str, number: int) -> None:
        if (reached, number) == (moment, batch):
            file.touch()
            Event().wait()

    return reach


def jobs_of(
    plan: Mapping[str, list[Any]], spark: SparkSession, place: Path
) -> dict[str, Callable[[], None]]:
    """Return what is to run, by name."""
    jobs: dict[str, Callable[[], None]] = {}
    pids = pids_of(spark)
    for name, (kind, moment, batch, *more) in plan.items():
        file = reached_file(place, name)
        if kind != SINK:
            jobs[name] = partial(
                KINDS[kind], spark, place / name, reaching(file, moment, batch), *more
            )
            continue
        others = [str(reached_file(place, other)) for other in plan if other != name]
        end = End(moment, batch, str(file), others, pids)
        jobs[name] = partial(write_until, spark, place / name, end, *more)
        # The others wait for it.
        pids = []
    return jobs


def pids_of(spark: SparkSession) -> list[int]:
    """Return the numbers of this process and of its JVM."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return [os.getpid(), jvm.java.lang.ProcessHandle.current().pid()]


def run_or_end(name: str, job: Callable[[], None], spark: SparkSession) -> None:
    """Run a job; one that ends, in whatever way, ends the driver."""
    try:
        # Makes the session that of this thread, which finds its sources by it.
        spark.createDataFrame([], "n int")
        job()
    except BaseException:  # noqa: BLE001 - told to the test
        end(traceback.format_exc())
    end(f"{name} has ended without reaching its moment")


def end(why: str) -> NoReturn:
    """End the driver though its other jobs wait."""
    sys.stderr.write(why)
    sys.stderr.flush()
    os._exit(1)


def main(place: Path, plan: dict[str, list[Any]]) -> None:
    """Run the jobs of a plan until the end."""
    spark = make_session(place / "spark", MASTER)
    spark.dataSource.register(DyingSink)
    threads = [
        Thread(target=run_or_end, args=(*job, spark)) for job in jobs_of(plan, spark, place).items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
