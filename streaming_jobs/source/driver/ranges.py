"""The batch source: what is committed when it is read, or a range of it.

Spark asks for the tasks once a loaded frame, however often the frame is used. So they carry given
offsets as they are, and what is earliest, latest or of a time as a rule that each task follows
when it reads: every action shows what is there by then, as with Kafka's source. A snapshot has
given offsets only.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from storage_core import StreamReader
from streaming_jobs.common.spark_errors import plain_errors
from streaming_jobs.common.stream_location import RootLocation
from streaming_jobs.source.driver.bounds import Edge
from streaming_jobs.source.driver.offsets import SourceOffset
from streaming_jobs.source.driver.resolving import require_streams, resolve_range
from streaming_jobs.source.driver.snapshot import edges_of
from streaming_jobs.source.driver.stream_snapshot import StreamSnapshot, opened, read_each
from streaming_jobs.source.executor.task import TaskRules, read_partition
from streaming_jobs.source.options import SourceOptions
from streaming_jobs.source.partitions import AddedShards, Edges, tasks_of


class RangeReader(DataSourceReader):
    """Reads a range of each shard once. Made, asked and pickled for each plan."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tasks = TaskRules(options.rules, options.fails_on_loss)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks, over what is committed by this moment."""
        options = self._options
        with plain_errors():
            if options.rules.is_empty:
                read_each(options, lambda _reader, _seen: None)
                return []
            if options.snapshot is not None:
                return tasks_of(*_of_snapshot(options, options.snapshot), options.splitting)
            return _tasks_of_now(options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows; called on executors, with nothing open."""
        return read_partition(partition, self._tasks)


def _of_snapshot(
    options: SourceOptions, taken: SourceOffset
) -> tuple[dict[str, StreamSnapshot], Edges]:
    snapshots, edges = {}, {}
    for stream, offset in taken.streams.items():
        with opened(options, stream) as (_, current):
            snapshots[stream] = current
            edges.update({(stream, n): each for n, each in edges_of(offset, current).items()})
    return snapshots, edges


def _tasks_of_now(options: SourceOptions) -> list[InputPartition]:
    """Return tasks over what there is, the last of which reads what is added."""

    def read(
        reader: StreamReader, snapshot: StreamSnapshot
    ) -> tuple[StreamSnapshot, dict[int, tuple[Edge, Edge]], bool]:
        edges = resolve_range(reader, snapshot, options.starting, options.ending)
        return snapshot, edges, reader.origin is not None

    answers = read_each(options, read)
    require_streams(options.starting, answers)
    require_streams(options.ending, answers)
    snapshots = {stream: snapshot for stream, (snapshot, _, _) in answers.items()}
    edges = {(stream, n): e for stream, (_, each, _) in answers.items() for n, e in each.items()}
    planned = {
        snapshot.place: frozenset(snapshot.ends) if grows else None
        for snapshot, _, grows in answers.values()
    }
    is_open = None not in (options.starting.everywhere, options.ending.everywhere)
    subscription = options.subscription
    grows = subscription.pattern is not None or any(planned.values())
    is_added = is_open and grows and subscription.shards is None
    added = AddedShards(options, RootLocation.here(options.path), planned) if is_added else None
    return tasks_of(snapshots, edges, options.splitting, added)
