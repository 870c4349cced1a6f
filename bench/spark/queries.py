"""What the Spark process does: drain a source, fill a sink, run small batches, follow a topic.

Each query has a checkpoint of its own. A rate counts what its micro-batches took, from the look
for news to the commit; a query's start, which comes once in its life and which a Python source
pays with an interpreter more, is only in the rate of the whole query. Processor time is that of
the JVM and all Python workers, of the whole query. No figure counts unless the rows do.
"""

import atexit
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter as Writer

from bench.child import answer_of, processor_seconds, python_workers_peak
from bench.ingest.latency import pace
from bench.measure import Measured, latencies
from bench.records import FIRST_PRIMARY, PARTITIONS
from bench.workspace import empty_directory
from storage_core import StreamReader, SystemClock

_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # As docs/SPARK.md advises: over TCP most small tasks begin 40 ms late.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SMALL_ROWS: Final = 1000
_QUERY_MAX_S: Final = 120
_LOOK_S: Final = 0.1
_SKIPPED: Final = 3
_SETTLE_S: Final = 4.0
_END_MAX_S: Final = 30.0
_RECORDS: Final = "primary long, secondary int, value binary"
_CLOCK: Final = SystemClock()

Options = Mapping[str, str]


def start(place: Path, jars: Sequence[str], more: Options | None = None) -> Measured:
    """Start Spark with two task slots, and more settings; it stops with the process."""
    # Unset, workers run whatever python3 PATH has.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master("local[2]").appName("shardlog-bench")
    places = {name: str(place / name) for name in ("spark.local.dir", "spark.sql.warehouse.dir")}
    settings = {**_SETTINGS, **places, "spark.jars": ",".join(jars), **(more or {})}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    atexit.register(spark.stop)
    return {}


def drain(place: Path, *, source: str, options: Options, rows: int) -> Measured:
    """Run a source into nothing, as one AvailableNow query; return the rates."""
    with empty_directory(place) as scratch:
        return _run_to_end(_written(_read(source, options), "noop", scratch), rows)


def convert(  # noqa: PLR0913 - a source, and what becomes of its values
    place: Path,
    *,
    source: str,
    options: Options,
    rows: int,
    sink: str,
    schema: str | None = None,
) -> Measured:
    """Run values as typed columns into a sink, as one AvailableNow query; return the rates.

    With a schema the source gives bytes behind a registry's id, which Spark's from_avro reads.
    """
    frame = _read(source, options)
    if schema is not None:
        value = from_avro(f.expr("substring(value, 6)"), schema).alias("value")
        frame = frame.select(value, "timestamp").select("value.*", "timestamp")
    with empty_directory(place) as scratch:
        writer = _written(frame, sink, scratch).option("path", str(scratch / "written"))
        return _run_to_end(writer, rows)


def fill(place: Path, *, sink: str, options: Options, files: Path, rows: int) -> Measured:
    """Run files into a sink, as one AvailableNow query; return the rates."""
    frame = SparkSession.active().readStream.schema(_RECORDS).parquet(str(files))
    with empty_directory(place) as scratch:
        measured = _run_to_end(_written(frame, sink, scratch).options(**options), rows)
        stored = _stored(sink, options)
    assert stored == rows, f"{sink}: {stored} rows of {rows} were stored"
    return measured


def small_batches(  # noqa: PLR0913 - what may differ
    place: Path,
    *,
    source: str = "rate-micro-batch",
    options: Options | None = None,
    sink: str = "noop",
    sink_options: Options | None = None,
    batches: int,
    shape: str = "rows",
) -> Measured:
    """Run micro-batches of a thousand rows; return the median time of one.

    Args:
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
    built_in = _read("rate-micro-batch", rate)
    frame = built_in if source == "rate-micro-batch" else _read(source, options or {})
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
        reports = _reports_of(query, batches)
    # A limit is shared out over partitions, each share rounded down.
    assert all(0 <= SMALL_ROWS - one["numInputRows"] < PARTITIONS for one in reports), reports
    took_ms = statistics.median(one["durationMs"]["triggerExecution"] for one in reports)
    return {"seconds": took_ms / 1000}


def follow(  # noqa: PLR0913 - a workload and its way
    place: Path,
    *,
    source: str,
    options: Options,
    bootstrap: str,
    topic: str,
    rate: int,
    seconds: int,
    through_files: bool = False,
) -> Measured:
    """Produce at a pace; return how old records are when `foreachBatch` has them, and the pace.

    A record's age counts from its timestamp, which the producer set when it was asked to send; of
    whole milliseconds, so that ages are too high by half of one, whoever reads. The query runs
    before the producer begins, with no trigger interval: a batch begins when the last one ends.
    The first seconds are left out. With `through_files` one query writes Parquet, and another
    reads that.
    """
    seen: list[tuple[int, int]] = []

    def note(batch: DataFrame, _number: int) -> None:
        rows = batch.selectExpr("unix_millis(timestamp) AS sent", "value").collect()
        now_ns = _CLOCK.now_ns()
        seen.extend((row.sent * 10**6, now_ns) for row in rows)

    with ExitStack() as running:
        scratch = running.enter_context(empty_directory(place))
        frame = _read(source, options)
        if through_files:
            files = scratch / "files"
            files.mkdir()
            writer = frame.select("timestamp", "value").writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(scratch / "first"))
            running.callback(writer.start(str(files)).stop)
            schema = "timestamp timestamp, value binary"
            frame = SparkSession.active().readStream.schema(schema).parquet(str(files))
        after = frame.writeStream.foreachBatch(note)
        query = after.option("checkpointLocation", str(scratch / "checkpoint")).start()
        running.callback(query.stop)
        achieved = answer_of(pace, bootstrap, topic, rate, seconds)["rate"]
        _await_rows(query, seen, rate * seconds)
    return {**_ages(seen), "pace_rate": achieved}


def worker_memory(place: Path, *, options: Options, rows: int) -> Measured:
    """Drain a stream, and return the most that a Python worker ever held."""
    drain(place, source="shardlog", options=options, rows=rows)
    return {"memory_bytes": python_workers_peak()}


def plan(_place: Path, *, source: str, options: Options, plans: int) -> Measured:
    """Return the median time from options to the tasks of a frame."""
    reader = SparkSession.active().read.format(source).options(**options)
    seconds = []
    for _ in range(plans):
        start = time.perf_counter()
        planned = reader.load().rdd.getNumPartitions()
        seconds.append(time.perf_counter() - start)
        assert planned > 0, "there are tasks"
    return {"seconds": statistics.median(seconds)}


def _read(source: str, options: Options) -> DataFrame:
    return SparkSession.active().readStream.format(source).options(**options).load()


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


def _await_a_look(query: StreamingQuery) -> None:
    """Wait a little; raise what a query has failed with."""
    _CLOCK.sleep(_LOOK_S)
    if not query.isActive:
        query.awaitTermination(1)


def _await_rows(query: StreamingQuery, seen: list[tuple[int, int]], count: int) -> None:
    deadline = _CLOCK.monotonic_s() + _END_MAX_S
    while len(seen) < count and _CLOCK.monotonic_s() < deadline:
        _await_a_look(query)
    assert len(seen) == count, f"{len(seen)} of {count} records came"


def _ages(seen: list[tuple[int, int]]) -> Measured:
    stamps, times = (np.array(column, np.int64) for column in zip(*seen, strict=True))
    settled = stamps >= stamps.min() + int(_SETTLE_S * 1e9)
    ages = (times - stamps)[settled] / 1e9
    return latencies(ages.tolist())


def _run_to_end(writer: Writer, rows: int) -> Measured:
    return rates_of(lambda: writer.trigger(availableNow=True).start(), rows)


def rates_of(begin: Callable[[], StreamingQuery], rows: int) -> Measured:
    """Run a query that ends by itself once it has seen so many rows; return its rates."""
    start, start_cpu = time.perf_counter(), processor_seconds()
    query = begin()
    assert query.awaitTermination(_QUERY_MAX_S), "the query goes on"
    seconds, cpu = time.perf_counter() - start, processor_seconds() - start_cpu
    reports = _reports(query)
    seen = sum(one["numInputRows"] for one in reports)
    assert seen == rows, f"{seen} rows of {rows} were seen"
    busy = sum(one["durationMs"]["triggerExecution"] for one in reports) / 1000
    return {"rate": rows / busy, "query_rate": rows / seconds, "cpu_rate": rows / cpu}


def _reports_of(query: StreamingQuery, batches: int) -> list[dict[str, Any]]:
    """Let a query run so many batches beyond the first; return what it reports of them."""
    deadline = _CLOCK.monotonic_s() + _QUERY_MAX_S
    while len(_reports(query)) < batches + _SKIPPED and _CLOCK.monotonic_s() < deadline:
        _await_a_look(query)
    reports = _reports(query)[_SKIPPED : batches + _SKIPPED]
    query.stop()
    assert len(reports) == batches, f"{len(reports)} batches of {batches} came"
    return reports


def _reports(query: StreamingQuery) -> list[dict[str, Any]]:
    reports = [json.loads(progress.json) for progress in query.recentProgress]
    return [one for one in reports if one["numInputRows"]]


def _stored(sink: str, options: Options) -> int:
    if sink == "shardlog":
        place = options["path"] if "path" in options else f"shardlog://{options['server']}"
        with StreamReader.open(place, options["stream"]) as reader:
            return sum(reader.committed().values())
    files = Path(options["path"]).glob("*.parquet")
    return sum(pq.read_metadata(path).num_rows for path in files)
