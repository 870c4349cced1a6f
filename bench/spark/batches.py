"""What the Spark process does with batches of orders: fields to noop, and a grouping.

A frame is made anew each time, so that looking at the parts, or the files, is part of the figure.
"""

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.log.orders import ORDER_FIELDS, ORDER_ROWS, ORDERS
from bench.measure import Measured
from bench.spark.queries import Options
from streaming_jobs.parts import dataframe


def write_plain(root: Path, place: Path) -> Measured:
    """Write the rows of a root as files of Spark's own."""
    dataframe(SparkSession.active(), root, ORDERS).write.parquet(str(place))
    return {}


def of_parts(root: Path) -> Measured:
    """Read parts."""
    return _measured(lambda: dataframe(SparkSession.active(), root, ORDERS))


def of_files(place: Path) -> Measured:
    """Read plain files."""
    return _measured(lambda: SparkSession.active().read.parquet(str(place)))


def of_source(options: Options) -> Measured:
    """Read blocks by our source."""
    read = SparkSession.active().read.format("shardlog").options(**options)
    return _measured(read.load)


def _measured(frame: Callable[[], DataFrame]) -> Measured:
    return {"scan": _scanned(frame), "groups": _grouped(frame)}


def _scanned(frame: Callable[[], DataFrame]) -> float:
    start = time.perf_counter()
    frame().select(*ORDER_FIELDS).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _grouped(frame: Callable[[], DataFrame]) -> float:
    start = time.perf_counter()
    groups = frame().groupBy("progress").agg({"*": "count", "amount": "avg"}).collect()
    seconds = time.perf_counter() - start
    assert sum(row["count(1)"] for row in groups) == ORDER_ROWS
    return seconds
