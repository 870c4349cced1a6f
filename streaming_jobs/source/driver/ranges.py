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
from streaming_jobs.common.stream_place import RootPlace
from streaming_jobs.source.driver.bounds import Edge
from streaming_jobs.source.driver.offsets import SourceOffset
from streaming_jobs.source.driver.resolving import require_streams, resolve_range
from streaming_jobs.source.driver.snapshot import edges_of
from streaming_jobs.source.driver.snapshot_reads import StreamLook, ask_each, opened
from streaming_jobs.source.executor.task import TaskRules, read_partition
from streaming_jobs.source.options import SourceOptions
from streaming_jobs.source.partitions import Added, Edges, tasks_of


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
                ask_each(options, lambda _reader, _seen: None)
                return []
            if options.snapshot is not None:
                return tasks_of(*_of_snapshot(options, options.snapshot), options.splitting)
            return _tasks_of_now(options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows; called on executors, with nothing open."""
        return read_partition(partition, self._tasks)


def _of_snapshot(
    options: SourceOptions, snapshot: SourceOffset
) -> tuple[dict[str, StreamLook], Edges]:
    looks, edges = {}, {}
    for stream, taken in snapshot.streams.items():
        with opened(options, stream) as (_, seen):
            looks[stream] = seen
            edges.update({(stream, n): each for n, each in edges_of(taken, seen).items()})
    return looks, edges


def _tasks_of_now(options: SourceOptions) -> list[InputPartition]:
    """Return tasks over what there is, the last of which looks for what is added."""

    def ask(
        reader: StreamReader, seen: StreamLook
    ) -> tuple[StreamLook, dict[int, tuple[Edge, Edge]], bool]:
        edges = resolve_range(reader, seen, options.starting, options.ending)
        return seen, edges, reader.origin is not None

    found = ask_each(options, ask)
    require_streams(options.starting, found)
    require_streams(options.ending, found)
    looks = {stream: seen for stream, (seen, _, _) in found.items()}
    edges = {(stream, n): e for stream, (_, each, _) in found.items() for n, e in each.items()}
    known = {
        seen.place: frozenset(seen.ends) if grows else None for seen, _, grows in found.values()
    }
    is_open = None not in (options.starting.everywhere, options.ending.everywhere)
    subscription = options.subscription
    grows = subscription.pattern is not None or any(known.values())
    is_added = is_open and grows and subscription.shards is None
    added = Added(options, RootPlace.here(options.path), known) if is_added else None
    return tasks_of(looks, edges, options.splitting, added)
