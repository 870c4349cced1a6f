"""The stream source: a micro-batch tail over committed offsets.

Spark keeps one of these for a query in a process beside the driver, and makes another for each
plan, which it pickles to tasks: nothing is open in `__init__`, and what tasks need is frozen.

It is called, for a query: `prepareForTriggerAvailableNow` (if so triggered), `initialOffset`
(twice, and again after each restart until batch 0 is committed), then for each batch
`latestOffset`, `partitions`, and `commit` of the batch before. `stop` may never come.

PySpark 4.0 and 4.1 hand `latestOffset` neither where the query stands nor a limit. After a restart
they ask first for the `partitions` of nothing, from the last offset that they have to itself; from
then on the query stands where the last answer says. The limit is the one of the options.
"""

import io
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from storage_core import InvalidRequestError, StreamReader, list_streams
from streaming_jobs.common.spark_errors import plain_errors
from streaming_jobs.common.spark_features import (
    HAS_ADMISSION,
    VERSION,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from streaming_jobs.source.driver.admission import BatchDelay, share_out
from streaming_jobs.source.driver.backlog import Backlog, StreamEnds, ends_of
from streaming_jobs.source.driver.bounds import Edge
from streaming_jobs.source.driver.offsets import (
    SourceOffset,
    StreamOffset,
    batch_ranges,
    decode_offset,
    encode_ends,
    encode_offset,
)
from streaming_jobs.source.driver.resolving import require_streams, resolve
from streaming_jobs.source.driver.stream_snapshot import (
    StreamSnapshot,
    check_same_stream,
    opened,
    read_each,
)
from streaming_jobs.source.executor.task import TaskRules, read_partition
from streaming_jobs.source.options import SourceOptions
from streaming_jobs.source.partitions import Edges, tasks_of

_LOG: Final = logging.getLogger("shardlog")
_ONE_BATCH: Final = (
    "PySpark %s runs trigger(availableNow=True) as one batch, which maxOffsetsPerTrigger ends "
    "early: to read on to what is there now, give the source the option availableNow=true, start "
    "the query with trigger(processingTime='0 seconds'), then query.processAllAvailable() and "
    "query.stop()"
)


class TailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tails all shards of the streams that are subscribed. One thread at a time."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tasks = TaskRules(options.rules, options.fails_on_loss)
        self._initial: dict[str, Any] | None = None
        self._target: StreamEnds | None = None
        self._latest: StreamEnds | None = None
        self._delay: BatchDelay | None = None
        # Where the query stands, as far as Spark does not say it.
        self._last: dict[str, Any] | None = None
        self._is_asked = False

    def initialOffset(self) -> dict[str, Any]:
        """Return where the query begins; resolved once, since `latest` moves on."""
        if self._initial is None:
            with plain_errors():
                self._initial = self._encoded(SourceOffset(_beginning(self._options)))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch takes unless Spark wants all."""
        admission = self._options.admission
        if admission.offsets_max is not None:
            return ReadMaxRows(admission.offsets_max)
        if admission.offsets_min is not None:
            return ReadMinRows(admission.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now as the end of the run."""
        with plain_errors():
            self._target = read_each(self._options, lambda _, snapshot: snapshot.ends)

    @plain_errors()
    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next batch; the start itself, verbatim, if there is none."""
        if not self._is_asked:
            self._is_asked = True
            self._begin_run()
        if start is None:
            start = self.initialOffset() if self._last is None else self._last
        self._last = self._end_after(start, self.getDefaultReadLimit() if limit is None else limit)
        return self._last

    def _begin_run(self) -> None:
        """Take what is there now as the end of the run, if the options ask for one."""
        admission = self._options.admission
        if admission.ends and self._target is None:
            self.prepareForTriggerAvailableNow()
        elif admission.offsets_max is not None and not HAS_ADMISSION:
            _LOG.warning(_ONE_BATCH, VERSION)

    def _end_after(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        last = self._decoded(start)
        backlog = Backlog.of(self._options, last.streams, self._target)
        self._latest = backlog.latest
        if isinstance(limit, ReadMaxRows):
            reached = share_out(limit.max_rows, backlog.begins, backlog.ends)
        else:
            reached = dict(backlog.ends)
        # What is skipped is reported and left out at once, not at each poll until there is enough.
        is_held_back = self._is_held_back(limit, backlog) and not backlog.gone
        is_begun = all(one.birth is not None for one in last.streams.values())
        if is_begun and (is_held_back or reached == ends_of(last.streams)):
            return start
        return self._encoded(replace(last, streams=backlog.reached(reached)))

    def _is_held_back(self, limit: ReadLimit, backlog: Backlog) -> bool:
        """Tell whether the batch waits for more; a run with an end never waits."""
        admission = self._options.admission
        is_all = isinstance(limit, ReadAllAvailable) or self._target is not None
        if admission.offsets_min is None or is_all:
            return False
        if self._delay is None:
            self._delay = BatchDelay(admission.offsets_min, admission.delay_max)
        return self._delay.holds_back(backlog.records)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the streams stood in the last snapshot."""
        return None if self._latest is None else encode_ends(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of the batch from one offset to another."""
        with plain_errors():
            if not self._is_asked:
                self._last = end
            since, until = decode_offset(start), self._decoded(end)
            snapshots, edges = _planned(self._options, since, until)
            return tasks_of(snapshots, edges, self._options.splitting)

    def _encoded(self, offset: SourceOffset) -> dict[str, Any]:
        """Return an offset as Spark keeps it, with the schema that values are read by."""
        fields = self._options.rules.fields
        if fields is None:
            return encode_offset(replace(offset, schema=None, schema_text=None))
        read_by = replace(offset, schema=fields.identity, schema_text=fields.schema)
        return encode_offset(read_by)

    def _decoded(self, document: dict[str, Any]) -> SourceOffset:
        """Return an offset from which the query can go on by the schema that it has."""
        offset, fields = decode_offset(document), self._options.rules.fields
        if fields is not None and offset.schema not in (None, fields.identity):
            from streaming_jobs.source.field_options import (  # noqa: PLC0415 - as in options
                check_reads_on,
            )

            check_reads_on(offset.schema_text, fields)
        return offset

    def stop(self) -> None:
        """Be quiet from now on, if the query ended by closing the process's socket.

        Spark's process answers that with an error that nobody is there to read, fails in doing
        so, and would show a traceback behind whatever the user's program said last.
        """
        if isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            sys.stderr = io.StringIO()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows; called on executors, with nothing open."""
        return read_partition(partition, self._tasks)


def _beginning(options: SourceOptions) -> dict[str, StreamOffset]:
    """Return where a query begins in each stream that is there.

    Offsets are given of every stream that is named; one that matches a pattern and that they do
    not tell of joins later, with its first record.
    """
    starting = options.starting

    def read(reader: StreamReader, snapshot: StreamSnapshot) -> StreamOffset | None:
        if options.subscription.pattern is not None and not starting.tells_of(
            snapshot.place.stream
        ):
            return None
        begins = resolve(reader, snapshot, starting)
        ends = {shard: edge.offset for shard, edge in begins.items()}
        expired = {shard: edge.expired_until for shard, edge in begins.items()}
        return StreamOffset(ends, snapshot.place.incarnation, snapshot.lineages, expired=expired)

    offsets = read_each(options, read)
    require_streams(starting, offsets)
    return {stream: offset for stream, offset in offsets.items() if offset is not None}


def _planned(
    options: SourceOptions, since: SourceOffset, until: SourceOffset
) -> tuple[dict[str, StreamSnapshot], Edges]:
    """Return what a batch reads, of every stream that its end names, subscribed or not."""
    snapshots: dict[str, StreamSnapshot] = {}
    edges: dict[tuple[str, int], tuple[Edge, Edge]] = {}
    for stream, end in until.streams.items():
        try:
            with opened(options, stream) as (reader, snapshot):
                ranges = batch_ranges(since.streams.get(stream), end)
                begins = {n: begin for n, (begin, _) in ranges.items() if begin is not None}
                # Whether the batch was done nobody knows: what goes on does it again.
                check_same_stream(end, snapshot, begins)
                snapshots[stream] = snapshot
                for n, (begin, stop) in ranges.items():
                    first = reader.born(n) if begin is None else begin
                    edges[stream, n] = Edge(first, None, end.expired.get(n, 0)), Edge(stop)
        except InvalidRequestError:
            is_named = stream in options.subscription.names
            if options.fails_on_loss or is_named or stream in list_streams(options.path):
                raise
            _LOG.warning("stream %r was dropped: a batch that comes again lacks its rows", stream)
    return snapshots, edges
