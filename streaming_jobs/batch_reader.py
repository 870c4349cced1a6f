"""The batch source: what is committed when the read is planned, or a range of it."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from streaming_jobs.options import SourceOptions
from streaming_jobs.partitions import SourceTask, StreamPlace, tasks_of
from streaming_jobs.plain_errors import plain_errors
from streaming_jobs.resolving import resolve_range
from streaming_jobs.row_rules import RowRules
from streaming_jobs.shard_task import TaskRules, read_task
from streaming_jobs.stream_look import look, opened


class RangeReader(DataSourceReader):
    """Reads a range of each shard once. Made, asked and pickled for each plan."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep what was asked for."""
        self._options = options
        self._rows: RowRules = options.rules

    def partitions(self) -> list[InputPartition]:  # type: ignore[explicit-override]
        """Return the tasks, over what is committed by this moment."""
        options = self._options
        with plain_errors(), opened(options) as reader:
            if self._rows.is_empty:
                return []
            seen = look(reader, options.path)
            asked = resolve_range(reader, seen, options.starting, options.ending, options.stream)
            ranges = self.clipped(asked)
            place = StreamPlace(options.path, options.stream, seen.root, seen.incarnation)
            return tasks_of(place, seen, ranges, options.splitting)

    def clipped(self, ranges: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Return what of the ranges is wanted: all."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[explicit-override]
        """Yield a task's rows; called on executors, with nothing open."""
        with plain_errors():
            # Where there are no tasks Spark makes one of nothing.
            if isinstance(partition, SourceTask):
                tasks = TaskRules(self._rows, self._options.fails_on_loss)
                yield from read_task(partition, tasks)
