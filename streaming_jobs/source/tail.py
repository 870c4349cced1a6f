"""The stream source: a micro-batch tail over committed offsets.

Spark keeps one of these for a query in a process beside the driver, and makes another for each
plan, which it pickles to tasks: nothing is open in `__init__`, and what tasks need is frozen.

It is called, for a query: `prepareForTriggerAvailableNow` (if so triggered), `initialOffset`
(twice, and again after each restart until batch 0 is committed), then for each batch
`latestOffset`, `partitions`, and `commit` of the batch before. `stop` may never come.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from storage_core import CorruptionError, StreamReader
from streaming_jobs.source.admission import BatchDelay, share_out
from streaming_jobs.source.bounds import Edge
from streaming_jobs.source.look import StreamLook, check_same_stream, look, opened
from streaming_jobs.source.offsets import (
    SourceOffset,
    batch_ranges,
    decode_offset,
    encode_ends,
    encode_offset,
)
from streaming_jobs.source.options import SourceOptions
from streaming_jobs.source.partitions import tasks_of
from streaming_jobs.source.resolving import resolve
from streaming_jobs.source.task import TaskRules, read_partition
from streaming_jobs.spark_errors import plain_errors


class TailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tails all shards of a stream. One thread at a time."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tasks = TaskRules(options.rules, options.fails_on_loss)
        self._initial: dict[str, Any] | None = None
        self._target: Mapping[int, int] | None = None
        self._latest: Mapping[int, int] | None = None
        self._delay: BatchDelay | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return where the query begins; resolved once, since `latest` moves on."""
        if self._initial is None:
            with plain_errors(), opened(self._options) as reader:
                seen = look(reader, self._options.path, self._options.stream)
                begins = resolve(reader, seen, self._options.starting)
                ends = {shard: edge.offset for shard, edge in begins.items()}
                expired = {shard: edge.expired_until for shard, edge in begins.items()}
                incarnation = seen.place.incarnation
                offset = SourceOffset(ends, incarnation, seen.lineages, expired=expired)
                self._initial = encode_offset(self._options.stream, offset)
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
        with plain_errors(), opened(self._options) as reader:
            self._target = look(reader, self._options.path, self._options.stream).ends

    @plain_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; the start itself, verbatim, if there is none."""
        known = decode_offset(self._options.stream, start)
        with opened(self._options) as reader:
            seen = look(reader, self._options.path, self._options.stream)
            check_same_stream(known, seen)
            self._latest = seen.ends
            begins = self._begins(known, seen, reader)
        ends = self._ends(begins, seen)
        if isinstance(limit, ReadMaxRows):
            reached = share_out(limit.max_rows, begins, ends)
        else:
            reached = ends
        is_held_back = self._is_held_back(limit, begins, ends)
        if known.birth is not None and (is_held_back or reached == known.ends):
            return start
        birth = known.ends if known.birth is None else known.birth
        births = {shard: birth.get(shard, begin) for shard, begin in begins.items()}
        return encode_offset(
            self._options.stream,
            SourceOffset(reached, seen.place.incarnation, seen.lineages, births, known.expired),
        )

    def _begins(
        self, known: SourceOffset, seen: StreamLook, reader: StreamReader
    ) -> dict[int, int]:
        """Return where each shard of the next batch begins; new ones with their first record."""
        there = seen.ends if self._target is None else self._target
        return {
            shard: known.ends[shard] if shard in known.ends else reader.born(shard)
            for shard in sorted({*there, *known.ends})
        }

    def _ends(self, begins: Mapping[int, int], seen: StreamLook) -> dict[int, int]:
        """Return how far each shard could be read; never less than it was."""
        ends = seen.ends if self._target is None else self._target
        for shard, begin in begins.items():
            if seen.ends[shard] < begin and self._options.fails_on_loss:
                message = (
                    "the log ends below what the query has read: the shard was set back; "
                    "failOnDataLoss=false waits until it is there again"
                )
                raise CorruptionError(
                    message,
                    stream=self._options.stream,
                    shard=shard,
                    start=seen.ends[shard],
                    end=begin,
                )
        return {shard: max(begin, ends.get(shard, begin)) for shard, begin in begins.items()}

    def _is_held_back(
        self, limit: ReadLimit, begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> bool:
        """Tell whether the batch waits for more; a run with an end never waits."""
        admission = self._options.admission
        is_all = isinstance(limit, ReadAllAvailable) or self._target is not None
        if admission.offsets_min is None or is_all:
            return False
        if self._delay is None:
            self._delay = BatchDelay(admission.offsets_min, admission.delay_max)
        return self._delay.holds_back(sum(ends[shard] - begins[shard] for shard in ends))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the stream stood at the last look."""
        if self._latest is None:
            return None
        return encode_ends(self._options.stream, self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of the batch from one offset to another."""
        options, stream = self._options, self._options.stream
        with plain_errors(), opened(options) as reader:
            until = decode_offset(stream, end)
            seen = look(reader, options.path, stream)
            check_same_stream(until, seen)
            ranges = batch_ranges(decode_offset(stream, start), until)
            edges = {
                n: (
                    Edge(reader.born(n) if begin is None else begin, None, until.expired.get(n, 0)),
                    Edge(stop),
                )
                for n, (begin, stop) in ranges.items()
            }
            return tasks_of(seen, edges, options.splitting)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows; called on executors, with nothing open."""
        return read_partition(partition, self._tasks)
