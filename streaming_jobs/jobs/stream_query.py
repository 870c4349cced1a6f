"""The query of a job: a stream read from its earliest row on, and what is done with each batch."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

TRIGGER: Final = "30 seconds"


def read_stream(
    spark: SparkSession,
    root: str | Path,
    stream: str,
    options: Mapping[str, str],
    limits: tuple[int | None, bool] = (None, False),
) -> DataFrame:
    """Return a stream as a frame of a query.

    Args:
        spark: The session.
        root: The directory that holds the streams.
        stream: The stream.
        options: More options of the source.
        limits: How many rows a batch takes at most, and whether lost rows are skipped.
    """
    rows_max, skips_lost = limits
    chosen = {"startingOffsets": "earliest", **options, "path": str(root), "stream": stream}
    if rows_max is not None:
        chosen["maxOffsetsPerTrigger"] = str(rows_max)
    if skips_lost:
        chosen["failOnDataLoss"] = "false"
    return spark.readStream.format("shardlog").options(**chosen).load()


def start_query(
    frame: DataFrame,
    process: Callable[[DataFrame, int], None],
    name: str,
    checkpoint: str,
    trigger: str | None,
) -> StreamingQuery:
    """Start a query that ends with what is there, or without an end at a trigger."""
    writer = frame.writeStream.foreachBatch(process).queryName(name)
    writer = writer.option("checkpointLocation", checkpoint)
    if trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()
