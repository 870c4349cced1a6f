"""A driver of its own on a cluster of two executors, where Spark runs twins of slow tasks.

    python -m tests.spark.twin_driver PLACE

In one stage a query reads a stream's two shards and writes what it reads to another stream. The
first attempt at shard 0 stops at its last row until its twin is there too; then both go on to
their end. Spark speculates neither within one process nor on one host, so this is a standalone
cluster of a master and two workers, on two addresses of the loopback. All end with the driver's
process group.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark import TaskContext
from pyspark.sql.functions import udf

from tests.spark.session import JVM, make_session
from tests.tidy.tree import ROOT
from tests.unit.streaming_jobs.source.source_lab import NAME
from tests.waiting import await_that

SINK = "written"
ROWS_A_SHARD = 3_000
TWIN_MAX_S = 400.0
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_SETTINGS = {
    "spark.driver.extraJavaOptions": JVM,
    "spark.executor.extraJavaOptions": JVM,
    "spark.executor.memory": "1g",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


def meeting(place: Path, last: int) -> Callable[[int], int]:
    """Return a function of a number at one of which two attempts wait for each other."""

    def number(value: int) -> int:
        if value == last:
            context = TaskContext.get()
            assert context is not None
            (place / f"attempt-{context.attemptNumber()}").touch()
            # Either may be here first: the twin may be started while the first one is not done yet.
            other = place / f"attempt-{1 - context.attemptNumber()}"
            await_that(other.exists, "the twin", TWIN_MAX_S)
        return value

    return number


def start_cluster(place: Path) -> str:
    """Start a master and two workers; return where the master is."""
    command = [str(_SPARK_CLASS), _MASTER, "--host", "127.0.0.1", "--port", "0"]
    log = place / "master.log"
    spawn([*command, "--webui-port", "0"], log)
    await_that(lambda: "spark://" in log.read_text(), "the master")
    words = log.read_text().split()
    master = next(word for word in words if word.startswith("spark://")).rstrip(",")
    for number in (1, 2):
        options = ["--host", f"127.0.0.{number}", "-c", "1", "-m", "1g", "--webui-port", "0"]
        work = ["--work-dir", str(place / f"work-{number}")]
        spawn([str(_SPARK_CLASS), _WORKER, *options, *work, master], place / f"worker-{number}.log")
    return master


def spawn(command: list[str], log: Path) -> None:
    """Start a process of the cluster, which ends with the group."""
    variables = {"PYTHONPATH": str(ROOT), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    variables |= {"SPARK_DAEMON_JAVA_OPTS": JVM, "SPARK_LAUNCHER_OPTS": JVM}
    with log.open("wb") as out:
        subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **variables})


def main(place: Path) -> None:
    """Run the query over what is there to its end."""
    spark = make_session(place, start_cluster(place), _SETTINGS)
    options = {"path": str(place / "root"), "startingOffsets": "earliest", "minPartitions": "2"}
    frame = spark.readStream.format("shardlog").options(stream=NAME, **options).load()
    number = udf(meeting(place, 2 * ROWS_A_SHARD - 2), "long", useArrow=False)
    primary = number(frame["value"].cast("string").cast("long")).alias("primary")
    rows = frame.select(primary, "secondary", "value")
    writer = rows.writeStream.format("shardlog").option("path", options["path"])
    writer = writer.option("stream", SINK).option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
