"""One job, read through Spark's Kafka source or through ours: only format and path differ.

Asked by test_kafka_format.py of spark_driver.py.
"""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

Options = Mapping[str, str]


class Job:
    """What runs through one of the two sources."""

    def __init__(self, spark: SparkSession, format_: str, options: Options) -> None:
        self.spark = spark
        self.format = format_
        self.options = options

    def frame(self, **options: str) -> DataFrame:
        """Return all records that are subscribed to."""
        reader = self.spark.read.format(self.format).options(**self.options)
        return reader.options(startingOffsets="earliest", includeHeaders="true", **options).load()

    def run(self, checkpoint: str, **options: str) -> Any:
        """Run a query over what is there; return which records it saw, or that it failed."""
        seen: list[tuple[str, int, int]] = []

        def note(batch: DataFrame, _number: int) -> None:
            rows = batch.select("topic", "partition", "offset").collect()
            seen.extend((row[0], row[1], row[2]) for row in rows)

        frame = self.spark.readStream.format(self.format).options(**self.options).options(**options)
        writer = frame.load().writeStream.foreachBatch(note)
        try:
            writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            writer.start().awaitTermination()
        except StreamingQueryException:
            return "failed"
        return sorted(seen)


def of_format(
    spark: SparkSession, *, name: str, options: Options, topics: tuple[str, str], checkpoint: str
) -> dict[str, Any]:
    """Read topics, aggregate them by window, answer with rows, windows and what queries saw."""
    job, (topic, other) = Job(spark, name, options), topics
    return {**of_one(job, topic), **of_several(job, topic, other, checkpoint)}


def of_one(job: Job, topic: str) -> dict[str, Any]:
    """Return rows and windows of a topic."""
    records = job.frame(subscribe=topic)
    rows = records.select(
        f.hex("key"),
        f.hex("value"),
        "topic",
        "partition",
        "offset",
        f.unix_millis("timestamp"),
        "timestampType",
        f.to_json("headers"),
    ).orderBy("partition", "offset")
    windows = (
        records.groupBy(f.window("timestamp", "10 seconds"), "partition")
        .agg(f.count("*").alias("n"), f.max("offset").alias("last"))
        .select(f.col("window.start").cast("string").alias("start"), "partition", "n", "last")
        .orderBy("start", "partition")
    )
    return {
        "rows": [list(row) for row in rows.collect()],
        "windows": [list(row) for row in windows.collect()],
    }


def of_several(job: Job, topic: str, other: str, checkpoint: str) -> dict[str, Any]:
    """Return what each way to subscribe shows, and what one query sees as topics come and go."""
    choices = {
        "names": {"subscribe": f"{topic}, {other}"},
        # Found in a name, not the whole of it.
        "pattern": {"subscribePattern": f"{topic[1:]}$|{other[1:]}$"},
        "assigned": {"assign": json.dumps({topic: [0, 2], other: [1]})},
    }
    counted = {}
    for name, choice in choices.items():
        groups = job.frame(**choice).groupBy("topic", "partition")
        ends = groups.agg(f.count("*"), f.max("offset")).orderBy("topic", "partition")
        counted[name] = [list(row) for row in ends.collect()]
    return {
        "counted": counted,
        "one": job.run(checkpoint, subscribe=topic, startingOffsets="earliest"),
        "joined": job.run(checkpoint, subscribe=f"{topic},{other}", startingOffsets="latest"),
        "left": job.run(checkpoint, subscribe=topic),
        "left, passed by": job.run(checkpoint, subscribe=topic, failOnDataLoss="false"),
        "back": job.run(checkpoint, **choices["pattern"]),
    }
