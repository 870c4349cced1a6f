"""How old records are when a query's `foreachBatch` has them in its hands, produced at a pace.

A record's age counts from its timestamp, which the producer set when it was asked to send; of
whole milliseconds, so that ages are too high by half of one, whoever reads. The query runs
before the producer begins, with no trigger interval: a batch begins when the last one ends.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.measure import latencies
from bench.spark_queries import await_a_look
from bench.workspace import KAFKA_TASKS, child_process, empty_directory
from storage_core import SystemClock

_SETTLE_S: Final = 4.0
_END_MAX_S: Final = 30.0
_CLOCK: Final = SystemClock()


def follow(  # noqa: PLR0913 - a workload and its way
    spark: SparkSession,
    place: Path,
    *,
    source: str,
    options: Mapping[str, str],
    bootstrap: str,
    topic: str,
    rate: int,
    seconds: int,
    through_files: bool = False,
) -> Mapping[str, float]:
    """Produce at a pace and follow; return p50 and p99 of the ages, and the pace that was kept.

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
        frame = spark.readStream.format(source).options(**options).load()
        if through_files:
            files = scratch / "files"
            files.mkdir()
            writer = frame.select("timestamp", "value").writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(scratch / "first"))
            running.callback(writer.start(str(files)).stop)
            frame = spark.readStream.schema("timestamp timestamp, value binary").parquet(str(files))
        after = frame.writeStream.foreachBatch(note)
        query = after.option("checkpointLocation", str(scratch / "checkpoint")).start()
        running.callback(query.stop)
        arguments: tuple[Any, ...] = (bootstrap, topic, rate, seconds)
        with child_process("pace", *arguments, module=KAFKA_TASKS) as pace:
            achieved = pace.answer()["rate"]
        _await_rows(query, seen, rate * seconds)
    return {**_ages(seen), "pace_rate": achieved}


def _await_rows(query: StreamingQuery, seen: list[tuple[int, int]], count: int) -> None:
    deadline = _CLOCK.monotonic_s() + _END_MAX_S
    while len(seen) < count and _CLOCK.monotonic_s() < deadline:
        await_a_look(query)
    assert len(seen) == count, f"{len(seen)} of {count} records came"


def _ages(seen: list[tuple[int, int]]) -> Mapping[str, float]:
    stamps, times = (np.array(column, np.int64) for column in zip(*seen, strict=True))
    settled = stamps >= stamps.min() + int(_SETTLE_S * 1e9)
    ages = (times - stamps)[settled] / 1e9
    return latencies(ages.tolist())
