"""One job, read through Spark's Kafka source or through ours: only format and path differ.

python kafka_format_driver.py FORMAT BOOTSTRAP TOPIC ROOT JARS
"""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main(format_: str, bootstrap: str, topic: str, root: str, jars: str) -> None:
    """Read a topic, aggregate it by window, answer with rows and windows."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    reader = (
        spark.read.format(format_)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
    )
    if format_ == "shardlog":
        reader = reader.option("path", root)
    records = reader.load()
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
    answer = {"rows": [list(row) for row in rows.collect()]}
    answer["windows"] = [list(row) for row in windows.collect()]
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
