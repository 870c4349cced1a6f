"""A driver that dies at one moment of a batch, as `kill -9` of the whole job would do.

    python -m tests.spark.dying_sink PLACE MOMENT BATCH [OPTION=VALUE ...]

    staging         the tasks' rows are staged, and nobody was told
    before commit   every task has reported, nothing is decided
    within commit   the manifest is published, the rows are on their way into the shards
    after commit    the rows are there, Spark's checkpoint does not know

The job is the one of sink_lab.py; its sink is shardlog's, wrapped to kill at the moment. Each test
goes on from the checkpoint with the plain sink.
"""

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from storage_core.store.rocks import RocksStore
from streaming_jobs.data_source import ShardlogSource
from streaming_jobs.sink.writer import ShardStreamWriter, stream_writer
from tests.spark.session import make_session
from tests.spark.sink_lab import NAME, SinkLab

STAGING, BEFORE, WITHIN, AFTER = "staging", "before commit", "within commit", "after commit"
# Those first at which something is decided; two drivers are killed where few are.
MOMENTS = (WITHIN, AFTER, STAGING, BEFORE)
_PLACE, _MOMENT = "SHARDLOG_TEST_PLACE", "SHARDLOG_TEST_MOMENT"
_BATCH = "SHARDLOG_TEST_BATCH"


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

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override, explicit-override]  # Spark declares it so
        message = self.inner.write(iterator)
        die_at(STAGING, message.transaction.number)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[explicit-override]  # noqa: N803 - Spark's
        die_at(BEFORE, batchId)
        if is_moment(WITHIN, batchId):
            die_once_published()
        self.inner.commit(messages, batchId)
        die_at(AFTER, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[explicit-override]  # noqa: N803 - Spark's
        self.inner.abort(messages, batchId)


def die_at(moment: str, batch: int | None) -> None:
    """End the job if this is the moment."""
    if is_moment(moment, batch):
        die()


def is_moment(moment: str, batch: int | None) -> bool:
    """Tell whether the job ends at this moment of this batch."""
    return (os.environ[_MOMENT], os.environ[_BATCH]) == (moment, str(batch))


def die_once_published() -> None:
    """End the job once there is a manifest, in place of the first sync of a shard's rows."""
    staging, sync = Path(os.environ[_PLACE]) / "root" / NAME / "staging", RocksStore.sync

    def dying_sync(store: RocksStore) -> None:
        if any(staging.glob("*/manifest.json")):
            die()
        sync(store)

    # No moment that a thread beside it picks is sure to come before the rows have landed.
    setattr(RocksStore, "sync", dying_sync)  # noqa: B010 - mypy takes an assignment for a mistake


def die() -> None:
    """Kill the driver, its JVM and this process, which asks nobody."""
    for pid in (Path(os.environ[_PLACE]) / "pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def main(place: Path, moment: str, batch: str, *options: str) -> None:
    """Run the job until it dies; the sink gets these options."""
    os.environ[_PLACE], os.environ[_MOMENT], os.environ[_BATCH] = str(place), moment, batch
    spark = make_session(place / "spark")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pids = (os.getpid(), jvm.java.lang.ProcessHandle.current().pid())
    (place / "pids").write_text(" ".join(str(pid) for pid in pids))
    spark.dataSource.register(DyingSink)
    given = dict(option.split("=", 1) for option in options)
    SinkLab(spark, place).run(sink="dying", **given)


if __name__ == "__main__":
    # As a module, so that the workers find the classes under the name they are pickled with.
    importlib.import_module("tests.spark.dying_sink").main(Path(sys.argv[1]), *sys.argv[2:])
