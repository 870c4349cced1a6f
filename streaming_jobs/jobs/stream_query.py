"""The query of a job: a stream read from its earliest row on, and what is done with each batch."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streaming_jobs.common.spark_features import HAS_ADMISSION
from streaming_jobs.jobs.roots import options_of
from streaming_jobs.jobs.spark_failures import SPARK_ERRORS

TRIGGER: Final = "30 seconds"


def read_stream(
    spark: SparkSession,
    root: str,
    stream: str,
    options: Mapping[str, str],
    limits: tuple[int | None, bool, bool] = (None, False, False),
) -> DataFrame:
    """Return a stream as a frame of a query.

    Args:
        spark: The session.
        root: The directory that holds the streams, or servers over one, as `root_of` returns it.
        stream: The stream.
        options: More options of the source.
        limits: How many rows a batch takes at most, whether lost rows are skipped, and whether the
            query ends with what is there.
    """
    rows_max, skips_lost, ends = limits
    chosen = {"startingOffsets": "earliest", **options, **options_of(root), "stream": stream}
    if rows_max is not None:
        chosen["maxOffsetsPerTrigger"] = str(rows_max)
    if skips_lost:
        chosen["failOnDataLoss"] = "false"
    if ends and not HAS_ADMISSION:
        chosen["availableNow"] = "true"
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
    return (
        start_to_end(writer) if trigger is None else writer.trigger(processingTime=trigger).start()
    )


def start_to_end(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query that ends with what is there, in batches of the source's limit.

    PySpark 4.0 and 4.1 would do one batch, and none but it where a killed run has left one. There
    the source keeps the end, which its option `availableNow` asks for, and the query is stopped
    once it has come to it.
    """
    if HAS_ADMISSION:
        return writer.trigger(availableNow=True).start()
    query = writer.trigger(processingTime="0 seconds").start()
    threading.Thread(target=_stop_at_end, args=(query,), daemon=True).start()
    return query


def _stop_at_end(query: StreamingQuery) -> None:
    # A query that fails tells whoever awaits it.
    with suppress(*SPARK_ERRORS):
        query.processAllAvailable()
        query.stop()
