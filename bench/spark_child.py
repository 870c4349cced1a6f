"""The process that holds a Spark session: `python -m bench.spark_child PLACE JARS`.

It reads orders as lines of JSON, does each to its end and answers with a line of JSON; it ends
with its input. What Spark or its workers print goes to stderr.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bench.spark_latency import follow
from bench.spark_queries import Task, drain, fill, small_batches, worker_memory
from bench.spark_synthetic import SyntheticSource

_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # As docs/SPARK.md advises: over TCP most small tasks begin 40 ms late.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_TASKS: Final[dict[str, Task]] = {
    "drain": drain,
    "fill": fill,
    "small": small_batches,
    "follow": follow,
    "memory": worker_memory,
}


def session(place: Path, jars: str) -> SparkSession:
    """Start Spark with two task slots."""
    # Unset, workers run whatever python3 PATH has.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master("local[2]").appName("shardlog-bench")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    if jars:
        builder = builder.config("spark.jars", jars)
    builder = builder.config("spark.local.dir", str(place / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(place / "warehouse"))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(SyntheticSource)
    return spark


def main(place: Path, jars: str) -> None:
    """Do orders until there are no more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    spark = session(place, jars)
    for line in sys.stdin:
        order = json.loads(line)
        measured = _TASKS[order["task"]](spark, place, **order["arguments"])
        answers.write(json.dumps(measured) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
