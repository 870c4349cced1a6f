"""What the Spark process does with a table of orders, and with plain files of the same rows.

A frame is made anew each time, so that looking at the table's log, or the files, is part of the
figure.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bench.child import processor_seconds
from bench.log.orders import ORDER_FIELDS, ORDER_ROWS
from bench.measure import Measured

_FILE_ROWS_MAX: Final = 1_000_000
_ORDER: Final = ("shard", "secondary", "primary", "address")
_ID: Final = 617


def write_plain(table: Path, place: Path) -> Measured:
    """Write the rows of a table as files of Spark's own, sorted as they are there."""
    rows = _table(table).repartition("shard").sortWithinPartitions(*_ORDER)
    rows.write.option("maxRecordsPerFile", _FILE_ROWS_MAX).parquet(str(place))
    return {}


def of_table(table: Path) -> Measured:
    """Read the table."""
    return _measured(lambda: _table(table))


def of_files(place: Path) -> Measured:
    """Read plain files."""
    return _measured(lambda: SparkSession.active().read.parquet(str(place)))


def _table(table: Path) -> DataFrame:
    return SparkSession.active().read.format("delta").load(str(table))


def _measured(frame: Callable[[], DataFrame]) -> Measured:
    measured = {}
    for name, query in (("scan", _scan), ("groups", _group), ("id", _rows_of_id)):
        start, start_cpu = time.perf_counter(), processor_seconds()
        query(frame())
        measured[name] = time.perf_counter() - start
        measured[f"{name} cpu"] = processor_seconds() - start_cpu
    return measured


def _scan(frame: DataFrame) -> None:
    frame.select(*ORDER_FIELDS).write.format("noop").mode("overwrite").save()


def _group(frame: DataFrame) -> None:
    groups = frame.groupBy("progress").agg({"*": "count", "amount": "avg"}).collect()
    assert sum(row["count(1)"] for row in groups) == ORDER_ROWS


def _rows_of_id(frame: DataFrame) -> None:
    rows = frame.where(f"secondary = {_ID}").select("number", "amount").collect()
    assert rows, "the id has rows"
