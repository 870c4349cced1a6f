"""A driver of its own on a cluster of two executors, where Spark runs twins of slow tasks.

    python -m tests.spark.support.twin_driver PLACE

In one stage a query reads a stream's two shards and writes what it reads to another stream. The
first attempt at shard 0 stops at its last row until its twin is there too; then both go on to
their end. Spark speculates neither within one process nor on one host, so this is a standalone
cluster of a master and two workers, on two addresses of the loopback. They share the driver's JVM;
each executor has one of its own. All end with the driver's process group.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.sql.functions import udf

from tests.spark.support.session import (
    JVM,
    SETTINGS,
    make_session,
    prepare_environment,
    with_classes,
)
from tests.unit.streaming_jobs.source.source_lab import NAME
from tests.waiting import await_that

SINK = "written"
ROWS_A_SHARD = 3_000
TWIN_MAX_S = 400.0
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
_MEMORY_MB = 1024


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
    """Start a master and two workers in the JVM that the session will have; return its address."""
    prepare_environment()
    conf = SparkConf().setAll([*SETTINGS.items(), *with_classes(_SETTINGS).items()])
    SparkContext._ensure_initialized(conf=conf)
    jvm: Any = SparkContext._jvm
    gateway: Any = SparkContext._gateway
    settings, none = jvm.org.apache.spark.SparkConf(), jvm.scala.Option.apply(None)
    deploy = jvm.org.apache.spark.deploy
    started = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, settings)
    master = f"spark://127.0.0.1:{started._1().address().port()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = master
    for number in (1, 2):
        work = str(place / f"work-{number}")
        arguments = (f"127.0.0.{number}", 0, 0, 1, _MEMORY_MB, masters, work)
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            *arguments, jvm.scala.Option.apply(number), settings, none
        )
    return master


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
