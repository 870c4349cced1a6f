"""Roll measurements up by hour with the job `roll_up`; a late record corrects its hour.

Run it: python examples/roll_up.py
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from storage_core.sql import connect
from streaming_jobs.jobs.roll_up import roll_up

# Spark's Python processes must have shardlog too.
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR")
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()

HOUR_MS = 3_600_000
SCHEMA = '{"type":"record","name":"Reading","fields":[{"name":"temperature","type":"double"}]}'
# Each run writes a row for each window that changed; the newest row of a window counts.
HOURS = """
    SELECT time, "count", "sum" / "count" FROM "readings-temperature-hour"
    QUALIFY row_number() OVER (PARTITION BY secondary, "primary" ORDER BY address DESC) = 1
    ORDER BY time
"""


def measure(root: Path, *readings: tuple[int, int, float]) -> None:
    """Write readings as Avro: time in milliseconds, device, temperature."""
    frame = spark.createDataFrame(readings, "primary bigint, secondary int, temperature double")
    writer = frame.write.format("shardlog").option("path", str(root)).option("stream", "readings")
    writer = writer.option("valueFormat", "avro").option("writerSchema", SCHEMA)
    writer.mode("append").save()


def roll_up_and_print(root: Path) -> None:
    """Roll up what came since the last run, and print the hours."""
    place = root.parent / "checkpoint"
    roll_up(
        spark, root, "readings", "temperature", checkpoint=place, levels=["hour"], once=True
    ).awaitTermination()
    with connect(root) as streams:
        for hour, count, mean in streams.sql(HOURS).fetchall():
            print(f"{hour:%H:%M}: {count} readings, {mean} degrees on average")


with TemporaryDirectory() as folder:
    root = Path(folder) / "root"
    measure(root, (0, 7, 20.0), (60_000, 7, 22.0), (HOUR_MS, 7, 25.0))
    roll_up_and_print(root)
    measure(root, (120_000, 7, 27.0))
    roll_up_and_print(root)
