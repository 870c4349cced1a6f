"""Write a stream from Spark, exactly once: a query that is started again adds what is new.

Run it: python examples/spark_sink.py
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from storage_core import Stream, StreamOptions, StreamReader

# Spark's Python processes must have shardlog too.
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR")
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def append(root: Path, *temperatures: int) -> None:
    """Append readings, as a worker does."""
    with Stream.open(root, "readings") as stream:
        for temperature in temperatures:
            stream.append(1000 * temperature, 7, b"%d" % temperature)


def run_query(root: Path) -> int:
    """Write hot readings into stream `alerts` up to now; return how many it has."""
    log = spark.readStream.format("shardlog").option("path", str(root))
    log = log.option("subscribe", "readings").option("startingOffsets", "earliest")
    hot = log.load().where("cast(cast(value AS string) AS int) > 30")
    writer = hot.writeStream.format("shardlog").option("path", str(root)).option("stream", "alerts")
    writer = writer.option("checkpointLocation", str(root.parent / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    with StreamReader.open(root, "alerts") as reader:
        return reader.read().num_rows


with TemporaryDirectory() as place:
    root = Path(place) / "root"
    Stream.create(root, "readings", StreamOptions(shards=1)).close()
    append(root, 20, 31, 25, 35)
    print(f"first run: {run_query(root)} alerts")
    print(f"nothing new: {run_query(root)} alerts")
    append(root, 40, 22)
    print(f"one hot reading more: {run_query(root)} alerts")
