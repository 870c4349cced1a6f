"""A Spark session that answers one line of JSON with another, until nobody asks any more.

python -m tests.broker.support.spark_driver JARS
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

import demo.job
from tests.broker.support.from_avro_driver import rows_of_both
from tests.broker.support.kafka_format_driver import of_format
from tests.spark.support.session import prepare_environment


def of_the_demo(_spark: SparkSession, *, telemetry: str, root: str, place: str) -> dict[str, Any]:
    """Let the demo's job go on from its checkpoint to the end of what is there."""
    vars(demo.job)["TELEMETRY"] = telemetry
    # In place of a session of its own it takes the one that runs.
    return {"seen": demo.job.run(root, place, is_endless=False)}


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "from_avro": rows_of_both,
    "kafka_format": of_format,
    "demo": of_the_demo,
}


def main(jars: str) -> None:
    """Answer what is asked. The first failure ends it, with its trace."""
    # Spark's own programs write to the standard output too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    prepare_environment()
    builder = SparkSession.Builder().master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.jars", jars).getOrCreate()
    for line in sys.stdin:
        question = json.loads(line)
        answer = JOBS[question["job"]](spark, **question["parameters"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
