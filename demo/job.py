"""The Spark job of the demo: tail the telemetry, count per device and minute, write the counts.

Every micro-batch writes its counts with the query's own version, so that a batch that is done
again changes nothing. The job ends when it has seen what it was told to wait for, and says how
many records it saw.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

TELEMETRY: Final = "telemetry"
COUNTS: Final = "counts"
_APP: Final = "demo-counts"
_TRIGGER: Final = "1 second"
_MINUTE_MS: Final = 60_000
_WAIT_MAX_S: Final = 150
_LOOK_S: Final = 1


@dataclass(slots=True)
class Seen:
    """What the batches have brought so far; written in the driver only."""

    batches: dict[int, int]

    @property
    def records(self) -> int:
        """Records of all batches, each batch counted once."""
        return sum(self.batches.values())


def session(place: Path) -> SparkSession:
    """Start Spark on this machine, two tasks at a time."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master("local[2]").appName("shardlog demo")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def run(root: str, place: str, records: int) -> int:
    """Count until so many records were seen; return how many were."""
    spark = session(Path(place))
    seen = Seen({})

    def count(batch: DataFrame, batch_id: int) -> None:
        minutes = f.col("primary") - f.col("primary") % _MINUTE_MS
        counts = batch.groupBy(minutes.alias("primary"), "secondary").agg(
            f.count("*").alias("records")
        )
        rows = counts.select(
            "primary",
            "secondary",
            f.encode(f.col("records").cast("string"), "UTF-8").alias("value"),
        ).persist()
        (total,) = rows.select(f.sum(f.col("value").cast("string").cast("long"))).first() or (0,)
        writer = rows.write.format("shardlog").mode("append").option("path", root)
        writer.option("stream", COUNTS).option("shards", "2").option("txnAppId", _APP).option(
            "txnVersion", str(batch_id)
        ).save()
        rows.unpersist()
        seen.batches[batch_id] = total or 0

    source = spark.readStream.format("shardlog").option("path", root)
    stream = source.option("stream", TELEMETRY).option("startingOffsets", "earliest").load()
    query = (
        stream.writeStream.foreachBatch(count)
        .option("checkpointLocation", str(Path(place) / "checkpoint"))
        .trigger(processingTime=_TRIGGER)
        .start()
    )
    for _ in range(_WAIT_MAX_S):
        if seen.records >= records or query.awaitTermination(_LOOK_S):
            break
    query.stop()
    return seen.records


def main(root: str, place: str, records: str) -> None:
    """Run the job and answer in one line."""
    seen = run(root, place, int(records))
    sys.stdout.write(json.dumps({"seen": seen}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
