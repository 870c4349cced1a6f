"""The batch source: what is committed when it is read, or a range of it.

Spark asks for the tasks once a loaded frame, however often the frame is used. So they carry given
offsets as they are, and what is earliest, latest or of a time as a rule that each task follows
when it reads: every action shows what is there by then, as with Kafka's source. A snapshot has
given offsets only.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from streaming_jobs.source.look import look, opened
from streaming_jobs.source.options import SourceOptions
from streaming_jobs.source.partitions import AddedShards, tasks_of
from streaming_jobs.source.resolving import resolve_range
from streaming_jobs.source.snapshot import edges_of
from streaming_jobs.source.task import TaskRules, read_partition
from streaming_jobs.spark_errors import plain_errors


class RangeReader(DataSourceReader):
    """Reads a range of each shard once. Made, asked and pickled for each plan."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tasks = TaskRules(options.rules, options.fails_on_loss)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks, over what is committed by this moment."""
        options = self._options
        with plain_errors(), opened(options) as reader:
            if options.rules.is_empty:
                return []
            seen = look(reader, options.path, options.stream)
            starting, ending = options.starting, options.ending
            if options.snapshot is not None:
                edges = edges_of(options.snapshot, seen)
                return tasks_of(seen, edges, options.splitting)
            edges = resolve_range(reader, seen, starting, ending)
            added = None
            if reader.origin is not None and None not in (starting.everywhere, ending.everywhere):
                added = AddedShards(seen.place, frozenset(seen.ends), starting, ending)
            return tasks_of(seen, edges, options.splitting, added)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows; called on executors, with nothing open."""
        return read_partition(partition, self._tasks)
