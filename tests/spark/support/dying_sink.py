"""A query into our sink in a driver that dies at one moment of a batch, as `kill -9` would end it.

    staging         the tasks' rows are staged, and nobody was told
    before commit   every task has reported, nothing is decided
    within commit   the manifest is published, the rows are on their way into the shards
    after commit    the rows are there, Spark's checkpoint does not know

The query is the one of sink_lab.py; its sink is shardlog's, wrapped to stop at the moment. There it
kills the driver, its JVM and itself, once all other jobs of the driver are at theirs
(doomed_driver.py); or it waits for its end, where another one kills. Each test goes on from the
checkpoint with the plain sink.
"""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Self

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from storage_core.engine.rocksdb import RocksDbStore
from streaming_jobs.common.spark_features import DataSourceStreamArrowWriter
from streaming_jobs.data_source import ShardlogSource
from streaming_jobs.sink.writer import ShardStreamWriter, stream_writer
from tests.spark.support.sink_lab import NAME, SinkLab
from tests.waiting import await_that

STAGING, BEFORE, WITHIN, AFTER = "staging", "before commit", "within commit", "after commit"
# Those first at which something is decided; two drivers are killed where few are.
MOMENTS = (WITHIN, AFTER, STAGING, BEFORE)
OTHERS_MAX_S = 500.0
_FILE = "end.json"


@dataclass(frozen=True, slots=True)
class End:
    """When a query's sink stops, and what it does there; the file lies beside the query's root.

    Attributes:
        moment: One of the moments.
        batch: Of which batch.
        reached: The file that tells that it is there.
        others: The files that tell it of other jobs.
        pids: Whom it kills then; without any it waits.
    """

    moment: str
    batch: int
    reached: str
    others: Sequence[str] = ()
    pids: Sequence[int] = ()

    def write(self, place: Path) -> None:
        """Leave it to the sink's processes."""
        (place / _FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def of(cls, root: str) -> Self:
        """Return what was left beside a root."""
        return cls(**json.loads((Path(root).parent / _FILE).read_text()))

    def come(self) -> None:
        """End all once the others are at their moments, or wait for the end."""
        Path(self.reached).touch()
        if not self.pids:
            Event().wait()
        others = list(map(Path, self.others))
        await_that(lambda: all(file.exists() for file in others), "other jobs", OTHERS_MAX_S)
        for pid in [*self.pids, os.getpid()]:
            os.kill(pid, signal.SIGKILL)

    def come_at(self, moment: str, batch: int | None) -> None:
        """Do so if this is the moment."""
        if (moment, batch) == (self.moment, self.batch):
            self.come()

    def come_once_published(self, root: str) -> None:
        """Do so once there is a manifest, in place of the first sync of a shard's rows."""
        staging, sync = Path(root) / NAME / "staging", RocksDbStore.sync

        def dying_sync(store: RocksDbStore) -> None:
            if any(staging.glob("*/manifest.json")):
                self.come()
            sync(store)

        # No moment that a thread beside it picks is sure to come before the rows have landed.
        setattr(RocksDbStore, "sync", dying_sync)  # noqa: B010 - mypy takes it for a mistake


class DyingSink(ShardlogSource):
    """The sink, in a job that is about to die."""

    @classmethod
    def name(cls) -> str:  # type: ignore[explicit-override]
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        return DyingWriter(stream_writer(self.options, schema, overwrite))


class DyingWriter(DataSourceStreamArrowWriter):
    """The sink's writer, and the moment at which all ends."""

    def __init__(self, inner: ShardStreamWriter) -> None:
        self.inner = inner
        self.end = End.of(inner.target.path)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override, explicit-override]  # Spark declares it so
        message = self.inner.write(iterator)
        self.end.come_at(STAGING, message.transaction.number)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[explicit-override]  # noqa: N803 - Spark's
        self.end.come_at(BEFORE, batchId)
        if (self.end.moment, self.end.batch) == (WITHIN, batchId):
            self.end.come_once_published(self.inner.target.path)
        self.inner.commit(messages, batchId)
        self.end.come_at(AFTER, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[explicit-override]  # noqa: N803 - Spark's
        self.inner.abort(messages, batchId)


def write_until(spark: SparkSession, place: Path, end: End, options: dict[str, str]) -> None:
    """Run the query up to its end."""
    end.write(place)
    SinkLab(spark, place).run(sink="dying", **options)
