"""The lab: one stream, one checkpoint, and the words tests use for what Spark does with them.

    lab.log.create(); lab.log.append(10)    the writer's side, in this process
    lab.read(ids="3")                       a frame over the stream, as a batch
    lab.run(maxOffsetsPerTrigger=4)         a query over what is there, to its end
    lab.fails(failing=0, …)                 the same, its batch 0 failing once its rows were seen
    lab.forget_commit(2)                    as if the driver had died before batch 2 was committed
    lab.seen                                batch -> the numbers that it saw when it came last

Spark's own workers read the stream, each in a process of its own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs.common.spark_features import HAS_ADMISSION
from streaming_jobs.jobs.stream_query import start_to_end
from tests.unit.streaming_jobs.source.source_lab import NAME, SourceLab

SECONDS_MAX = 600
# What a source must know of a run that `start_to_end` begins; where Spark tells it, nothing.
TO_END: dict[str, object] = {} if HAS_ADMISSION else {"availableNow": "true"}
Numbers = list[tuple[int, int]]


class SparkLab:
    """One stream, one checkpoint, and what queries on them saw."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.log = SourceLab(place / "root")
        self.checkpoint = place / "checkpoint"
        self.format = "shardlog"
        self.batches: dict[int, Numbers] = {}

    def clean_up(self) -> None:
        """Stop what a test left running, and take away what it made in the session."""
        for query in self.spark.streams.active:
            query.stop()
        self.log.close()
        # The session is shared: a name that stays is taken for the next test.
        for made in self.spark.catalog.listTables():
            kind = "view" if made.isTemporary else "table"
            self.spark.sql(f"drop {kind} if exists {made.name}")

    # --- reading ---------------------------------------------------------------------------

    def read(self, **options: object) -> DataFrame:
        """Return a frame over the stream, as a batch."""
        reader = self.spark.read.format(self.format)
        return reader.options(**self.log.options(**options)).load()

    def numbers(self, **options: object) -> list[int]:
        """Return the numbers of the rows of a batch read, sorted."""
        return numbers_of(self.read(**options))

    # --- queries ---------------------------------------------------------------------------

    def start(self, **options: object) -> StreamingQuery:
        """Start a query that goes on until it is stopped."""
        return self._start({"processingTime": "0 seconds"}, None, options)

    def _start(
        self, trigger: dict[str, Any] | None, failing: int | None, options: dict[str, object]
    ) -> StreamingQuery:
        """Start a query that notes what each batch sees; batch `failing` fails after that."""
        reader = self.spark.readStream.format(self.format)
        if trigger is None:
            options = {**TO_END, **options}
        frame = reader.options(**self.log.options(**options)).load()

        def note(batch: DataFrame, number: int) -> None:
            rows = batch.select("value", spark_partition_id()).collect()
            self.batches[number] = sorted((int(value), task) for value, task in rows)
            if number == failing:
                message = "the batch fails"
                raise RuntimeError(message)

        writer = frame.writeStream.foreachBatch(note)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return start_to_end(writer) if trigger is None else writer.trigger(**trigger).start()

    def run(self, *, failing: int | None = None, **options: object) -> StreamingQuery:
        """Run a query over what is there to its end; batch `failing` fails."""
        query = self._start(None, failing, options)
        assert query.awaitTermination(SECONDS_MAX), "the query goes on"
        return query

    def run_now(self, **options: object) -> StreamingQuery:
        """Run a query as Spark's own trigger AvailableNow does, to its end."""
        query = self._start({"availableNow": True}, None, options)
        assert query.awaitTermination(SECONDS_MAX), "the query goes on"
        return query

    def fails(self, *, failing: int | None = None, **options: object) -> str:
        """Run a query that must fail; return what it says."""
        with pytest.raises(StreamingQueryException) as raised:
            self.run(failing=failing, **options)
        return str(raised.value)

    def forget_commit(self, batch: int) -> None:
        """Let it be as if the driver had died before a batch was committed."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    @property
    def seen(self) -> dict[int, list[int]]:
        """What each batch saw when it came last."""
        return {n: [number for number, _ in rows] for n, rows in sorted(self.batches.items())}

    @property
    def all_seen(self) -> list[int]:
        """All numbers seen, as often as they were, sorted."""
        return sorted(number for rows in self.seen.values() for number in rows)


def numbers_of(frame: DataFrame) -> list[int]:
    """Return the numbers that the values of a frame tell, sorted."""
    return sorted(int(row.value) for row in frame.select("value").collect())


def first_line(error: object) -> str:
    """Return what a user reads first."""
    return str(error).splitlines()[0]


def sources(query: StreamingQuery) -> Iterator[dict[str, Any]]:
    """Yield what each batch of a query reported of its source."""
    for progress in query.recentProgress:
        yield json.loads(progress.json)["sources"][0]


__all__ = ["NAME", "SparkLab", "first_line", "numbers_of", "sources"]
