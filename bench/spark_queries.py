"""What the Spark process does: drain a source, fill a sink, run small batches, look at memory.

Each query has a checkpoint of its own. A rate counts what its micro-batches took, from the look
for news to the commit; a query's start, which comes once in its life and which a Python source
pays with an interpreter more, is only in the rate of the whole query. Processor time is that of
the JVM and all Python workers, of the whole query. No figure counts unless the rows do.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter as Writer

from bench.processes import processor_seconds, python_workers_peak
from bench.records import FIRST_PRIMARY, PARTITIONS
from bench.workspace import empty_directory
from storage_core import StreamReader, SystemClock

SMALL_ROWS: Final = 1000
_QUERY_MAX_S: Final = 120
_LOOK_S: Final = 0.1
_CLOCK: Final = SystemClock()
_SKIPPED: Final = 3
_RECORDS: Final = "primary long, secondary int, value binary"

Options = Mapping[str, str]
Task = Callable[..., Mapping[str, float]]


def drain(
    spark: SparkSession, place: Path, *, source: str, options: Options, rows: int
) -> Mapping[str, float]:
    """Run a source into nothing, as one AvailableNow query; return the rates."""
    frame = spark.readStream.format(source).options(**options).load()
    with empty_directory(place) as scratch:
        return _run_to_end(_written(frame, "noop", scratch), rows)


def fill(  # noqa: PLR0913 - a workload and its way
    spark: SparkSession, place: Path, *, sink: str, options: Options, files: str, rows: int
) -> Mapping[str, float]:
    """Run files into a sink, as one AvailableNow query; return the rates."""
    frame = spark.readStream.schema(_RECORDS).parquet(files)
    with empty_directory(place) as scratch:
        measured = _run_to_end(_written(frame, sink, scratch).options(**options), rows)
        found = _stored(sink, options)
    assert found == rows, f"{sink}: {found} rows of {rows} were stored"
    return measured


def small_batches(  # noqa: PLR0913 - what may differ
    spark: SparkSession,
    place: Path,
    *,
    source: str = "rate-micro-batch",
    options: Options | None = None,
    sink: str = "noop",
    sink_options: Options | None = None,
    batches: int,
    shape: str = "rows",
) -> Mapping[str, float]:
    """Run micro-batches of a thousand rows; return the median time of one, and of its parts.

    Args:
        spark: The session.
        place: For checkpoints.
        source: The source.
        options: Its options.
        sink: The sink; one that is not "noop" gets rows as the log takes them.
        sink_options: Its options.
        batches: How many are counted; a few more run before.
        shape: "rows" for a thousand rows a batch; "none" for a batch of which no row is left;
            "beside" for a source without news beside one that has a thousand.
    """
    rate = {"rowsPerBatch": str(SMALL_ROWS), "numPartitions": str(PARTITIONS)}
    built_in = spark.readStream.format("rate-micro-batch").options(**rate).load()
    if source == "rate-micro-batch":
        frame = built_in
    else:
        frame = spark.readStream.format(source).options(**options or {}).load()
    if shape == "beside":
        frame = built_in.select("value").union(frame.select("offset"))
    if sink != "noop":
        frame = _records(frame)
    if shape == "none":
        # Spark cannot know that it leaves nothing.
        frame = frame.where("secondary < 0")
    with empty_directory(place) as scratch:
        writer = _written(frame, sink, scratch)
        query = writer.options(**sink_options or {}).start()
        durations = _durations(query, batches)
    # A limit is shared out over partitions, each share rounded down.
    assert all(0 <= SMALL_ROWS - one["rows"] < PARTITIONS for one in durations), durations
    medians = {name: statistics.median(one[name] for one in durations) for name in durations[0]}
    return {**medians, "seconds": medians["triggerExecution"]}


def worker_memory(
    spark: SparkSession, place: Path, *, options: Options, rows: int
) -> Mapping[str, float]:
    """Drain a stream, and return the most that a Python worker ever held."""
    measured = drain(spark, place, source="shardlog", options=options, rows=rows)
    return {**measured, "memory_bytes": python_workers_peak()}


def _written(frame: DataFrame, sink: str, scratch: Path) -> Writer:
    writer = frame.writeStream.format(sink)
    return writer.option("checkpointLocation", str(scratch / "checkpoint"))


def _records(frame: DataFrame) -> DataFrame:
    """Return counted rows as records, an id's in one partition and in order."""
    value = f.col("value")
    return frame.select(
        (value + FIRST_PRIMARY).alias("primary"),
        (value % 100).cast("int").alias("secondary"),
        f.encode(f.rpad(value.cast("string"), 100, "x"), "utf-8").alias("value"),
    )


def await_a_look(query: StreamingQuery) -> None:
    """Wait a little; raise what a query has failed with."""
    _CLOCK.sleep(_LOOK_S)
    if not query.isActive:
        query.awaitTermination(1)


def _run_to_end(writer: Writer, rows: int) -> Mapping[str, float]:
    start, start_cpu = time.perf_counter(), processor_seconds()
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(_QUERY_MAX_S), "the query goes on"
    seconds, cpu = time.perf_counter() - start, processor_seconds() - start_cpu
    reports = _reports(query)
    seen = sum(one["numInputRows"] for one in reports)
    assert seen == rows, f"{seen} rows of {rows} were seen"
    busy = sum(one["durationMs"]["triggerExecution"] for one in reports) / 1000
    return {"rate": rows / busy, "query_rate": rows / seconds, "cpu_rate": rows / cpu}


def _durations(query: StreamingQuery, batches: int) -> list[dict[str, float]]:
    """Let a query run so many batches beyond the first; return their seconds by part."""
    deadline = _CLOCK.monotonic_s() + _QUERY_MAX_S
    while len(_reports(query)) < batches + _SKIPPED and _CLOCK.monotonic_s() < deadline:
        await_a_look(query)
    found = _reports(query)[_SKIPPED : batches + _SKIPPED]
    query.stop()
    assert len(found) == batches, f"{len(found)} batches of {batches} came"
    return [
        {"rows": one["numInputRows"]}
        | {name: took / 1000 for name, took in one["durationMs"].items()}
        for one in found
    ]


def _reports(query: StreamingQuery) -> list[dict[str, Any]]:
    reports = [json.loads(progress.json) for progress in query.recentProgress]
    return [one for one in reports if one["numInputRows"]]


def _stored(sink: str, options: Options) -> int:
    if sink == "shardlog":
        with StreamReader.open(options["path"], options["stream"]) as reader:
            return sum(reader.committed().values())
    files = Path(options["path"]).glob("*.parquet")
    return sum(pq.read_metadata(path).num_rows for path in files)
