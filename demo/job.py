"""The Spark job of the demo: tail the telemetry, count per device and minute, write the counts.

Every micro-batch writes its counts with the query's own version, so that a batch that is done
again changes nothing. The job ends when it has seen what it is told to wait for, once a file says
so, and says how many records it saw.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

TELEMETRY: Final = "telemetry"
COUNTS: Final = "counts"
# The file in the job's place that says how many records there are to see.
EXPECTED: Final = "expected"
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


def counting(root: str, seen: Seen) -> Callable[[DataFrame, int], None]:
    """Return what to do with each micro-batch: write its counts, once whatever is repeated."""

    def count(batch: DataFrame, batch_id: int) -> None:
        minutes = f.col("primary") - f.col("primary") % _MINUTE_MS
        counts = batch.groupBy(minutes.alias("primary"), "secondary").agg(
            f.count("*").alias("records")
        )
        text = f.col("records").cast("string")
        rows = counts.select("primary", "secondary", f.encode(text, "UTF-8").alias("value"))
        rows.persist()
        first = rows.select(f.sum(f.col("value").cast("string").cast("long"))).first()
        (
            rows.write.format("shardlog")
            .mode("append")
            .option("path", root)
            .option("stream", COUNTS)
            .option("shards", "2")
            .option("txnAppId", _APP)
            .option("txnVersion", str(batch_id))
            .save()
        )
        rows.unpersist()
        seen.batches[batch_id] = 0 if first is None else first[0] or 0

    return count


def run(root: str, place: str, *, is_endless: bool = True) -> int:
    """Count until as many records were seen as are expected, or all there are; return how many.

    Args:
        root: Where the streams are.
        place: The job's own directory.
        is_endless: Whether to wait for more; else it ends with what is there.
    """
    spark = session(Path(place))
    seen = Seen({})
    source = spark.readStream.format("shardlog").option("path", root)
    stream = source.option("stream", TELEMETRY).option("startingOffsets", "earliest").load()
    writer = stream.writeStream.foreachBatch(counting(root, seen))
    writer = writer.option("checkpointLocation", str(Path(place) / "checkpoint"))
    if not is_endless:
        writer.trigger(availableNow=True).start().awaitTermination(_WAIT_MAX_S)
        return seen.records
    query = writer.trigger(processingTime=_TRIGGER).start()
    expected = Path(place) / EXPECTED
    for _ in range(_WAIT_MAX_S):
        if (
            expected.exists() and seen.records >= int(expected.read_text() or -1)
        ) or query.awaitTermination(_LOOK_S):
            break
    query.stop()
    return seen.records


def main(root: str, place: str, until: str = EXPECTED) -> None:
    """Run the job and answer in one line; `all` ends with what is there."""
    seen = run(root, place, is_endless=until != "all")
    sys.stdout.write(json.dumps({"seen": seen}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
