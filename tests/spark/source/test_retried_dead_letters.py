"""Goal: a running query sees each row of a retried dead letter once, beside the rows there were.

Method: a stream of a topic keeps dead letters that were too large; the limit is raised and they are
retried while a query runs, and once more before another begins from its checkpoint.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connectors.dlq.record import DeadLetter, encode_dead_letter
from connectors.group.retry_shards import retry_shard_of
from connectors.ingest.dead_letters.retry import RetrySettings, retry
from connectors.ingest.dead_letters.selection import Selection
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import StreamSettings
from storage_core import Stream, StreamOptions, StreamOrigin

NAME = "topic"
ROWS = 10
DEAD_LETTERS = 200
BASE_MS = 1_767_355_200_000


def too_large(offset: int) -> bytes:
    return encode_dead_letter(
        DeadLetter("value of 9 bytes; payload_bytes_max is 8", NAME, 0, offset, BASE_MS + offset, 0,
                   (1).to_bytes(4, "big"), b"%09d" % offset, None)
    )  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A stream of a topic with some rows, and dead letters behind them."""
    root = tmp_path / "root"
    origin = StreamOrigin("kafka", NAME, "id", "integer", "timestamp")
    Stream.create(root, NAME, StreamOptions(payload_bytes_max=8), origin=origin).close()
    Stream.add_shards(root, NAME, {0: 0})
    with Stream.open(root, NAME) as stream:
        rows = {
            "primary": [BASE_MS + number for number in range(ROWS)],
            "secondary": pa.array([1] * ROWS, pa.int32()),
            "payload": [b"%08d" % number for number in range(ROWS)],
        }
        dead_letters = {at: too_large(at) for at in range(ROWS, ROWS + DEAD_LETTERS)}
        stream.append_batch(
            pa.table(rows), shard=0, addresses=np.arange(ROWS), dead_letters=dead_letters
        )
        stream.alter(payload_bytes_max=100)
    return root


def retried(root: Path, last: int) -> int:
    settings = RetrySettings(StreamSettings(), SchemaSettings())
    selection = Selection(end=last)
    (report,) = retry(root, NAME, selection, settings, lambda _: None, is_dry_run=False)
    return report.stored


def started(spark: SparkSession, root: Path, place: Path, seen: list[Any]) -> StreamingQuery:
    def note(batch: DataFrame, _number: int) -> None:
        seen.extend((row["partition"], row["primary"]) for row in batch.collect())

    reader = spark.readStream.format("shardlog").options(path=str(root), stream=NAME)
    frame = reader.option("startingOffsets", "earliest").load().selectExpr("partition", "primary")
    writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(place))
    return writer.start()


def test_running_query_and_the_one_after_it_see_each_retried_row_once(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    seen: list[Any] = []
    query = started(spark, root, tmp_path / "checkpoint", seen)
    query.processAllAvailable()
    assert len(seen) == ROWS
    assert retried(root, ROWS + 99) == 100
    query.processAllAvailable()
    assert len(seen) == ROWS + 100
    query.stop()
    assert retried(root, ROWS + DEAD_LETTERS) == 100
    query = started(spark, root, tmp_path / "checkpoint", seen)
    query.processAllAvailable()
    query.stop()
    assert len(seen) == len(set(seen)) == ROWS + DEAD_LETTERS
    assert {shard for shard, _ in seen} == {0, retry_shard_of(0)}
