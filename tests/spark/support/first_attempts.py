"""Tasks whose first attempt goes wrong, so that Spark itself runs them again.

    spark.dataSource.register(FrailSource)     format("frail"): shardlog's source and sink, whose
                                               worker is killed in the middle of a first attempt
    raises_once(place, at)                     a column function that raises in a first attempt
    large_values(root, at)                     the same, once the sink has written a part to disk

Each leaves the file `failed-<partition>` beside the root, for tests to see that it did fail. A
sink gathers 32 MB before it writes, so rows of a large batch are 100 kB each.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from streaming_jobs.common.spark_features import DataSourceStreamArrowWriter
from streaming_jobs.data_source import ShardlogSource
from streaming_jobs.sink.writer import (
    ShardBatchWriter,
    ShardStreamWriter,
    batch_writer,
    stream_writer,
)
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.driver.tail import TailReader
from tests.waiting import await_that

VALUE_BYTES = 100_000
LARGE_ROWS = 600
ROWS_A_BATCH = 100


class FrailSource(ShardlogSource):
    """shardlog, on workers that are killed once in each task."""

    @classmethod
    def name(cls) -> str:  # type: ignore[explicit-override]
        return "frail"

    def reader(self, schema: StructType) -> DataSourceReader:  # type: ignore[explicit-override]
        reader = super().reader(schema)
        assert isinstance(reader, RangeReader)
        return FrailRangeReader(reader._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        reader = super().streamReader(schema)
        assert isinstance(reader, TailReader)
        return FrailTailReader(reader._options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # type: ignore[explicit-override]
        return FrailBatchWriter(batch_writer(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        return FrailStreamWriter(stream_writer(self.options, schema, overwrite))


class FrailRangeReader(RangeReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[explicit-override]
        yield from cut_short(super().read(partition), Path(self._options.path))


class FrailTailReader(TailReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[explicit-override]
        yield from cut_short(super().read(partition), Path(self._options.path))


class FrailBatchWriter(DataSourceArrowWriter):
    def __init__(self, inner: ShardBatchWriter) -> None:
        self.inner = inner

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override, explicit-override]  # Spark declares it so
        return self.inner.write(cut_short_once_staged(iterator, Path(self.inner.target.path)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:  # type: ignore[explicit-override]
        self.inner.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # type: ignore[explicit-override]
        self.inner.abort(messages)


class FrailStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, inner: ShardStreamWriter) -> None:
        self.inner = inner

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override, explicit-override]  # Spark declares it so
        return self.inner.write(cut_short_once_staged(iterator, Path(self.inner.target.path)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[explicit-override]  # noqa: N803 - Spark's
        self.inner.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[explicit-override]  # noqa: N803 - Spark's
        self.inner.abort(messages, batchId)


def cut_short(batches: Iterator[pa.RecordBatch], root: Path) -> Iterator[pa.RecordBatch]:
    """Yield batches; a first attempt's worker is killed when it is asked for a second one."""
    for number, batch in enumerate(batches):
        if number == 1 and is_first_attempt():
            die(root)
        yield batch


def cut_short_once_staged(
    batches: Iterator[pa.RecordBatch], root: Path
) -> Iterator[pa.RecordBatch]:
    """Yield batches; a first attempt's worker is killed once it has written a part."""
    for batch in batches:
        if is_first_attempt() and has_staged(root):
            die(root)
        yield batch


def raises_once(root: Path, row: int) -> Callable[[int], int]:
    """Return a function of a number that raises at one of them in a first attempt."""

    def number(value: int) -> int:
        if value == row and is_first_attempt():
            note_failure(root)
            message = "the first attempt fails"
            raise RuntimeError(message)
        return value

    return number


def large_values(root: Path, row: int) -> Callable[[int], bytes]:
    """Return a function of a number that raises at one, once rows before it are on disk."""

    def value(number: int) -> bytes:
        if number == row and is_first_attempt():
            await_that(lambda: has_staged(root), "a part in the staging directory")
            note_failure(root)
            message = "the first attempt fails"
            raise RuntimeError(message)
        return bytes(VALUE_BYTES)

    return value


def has_staged(root: Path) -> bool:
    """Tell whether rows lie in the staging directory of any stream."""
    return any(path.stat().st_size for path in root.glob("*/staging/*/*/*.arrow"))


def is_first_attempt() -> bool:
    """Tell whether the running task has not failed before."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() == 0


def note_failure(root: Path) -> None:
    """Leave a file that tells which task fails."""
    context = TaskContext.get()
    assert context is not None
    (root.parent / f"failed-{context.partitionId()}").touch()


def die(root: Path) -> None:
    """Kill the Python worker that runs this."""
    note_failure(root)
    os.kill(os.getpid(), signal.SIGKILL)
