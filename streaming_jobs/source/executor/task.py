"""What one task does: read ranges of shards, and prove that nothing of them is missing.

A range is read as it was stored. Loss is what was there once and is not any more: below the
log's start, unless the shard was born above it, or a range that was acknowledged and is gone.
What had expired when a query, or the
task of a frame that follows the log, began with earliest or a time was never owed to it.
What the source itself no longer had when its turn came (retention had passed) was never here;
it is a gap in the offsets like those of transactions and compaction, which Kafka's own source
skips as well. So is a lost range that an operator has accepted by name.
"""

import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from storage_core import (
    ForeignDataError,
    LostRangeError,
    ReadRequest,
    StreamReader,
    UnavailableError,
)
from streaming_jobs.common.spark_errors import plain_errors
from streaming_jobs.source.driver.resolving import at_read_time, resolve_range
from streaming_jobs.source.driver.stream_snapshot import StreamSnapshot, read_each, snapshot_of
from streaming_jobs.source.executor.open_readers import OPEN_READERS, OpenReaders
from streaming_jobs.source.executor.row_batches import RowBatches, StreamShape
from streaming_jobs.source.partitions import AddedShards, ShardRange, SourceTask
from streaming_jobs.source.requests import RowRules, replay_request

if TYPE_CHECKING:
    # It loads the decoder, which queries of bytes do without.
    from streaming_jobs.source.executor.typed_values import TypedValues

_LOG: Final = logging.getLogger("shardlog")
# A network file system may show some time later what the driver saw on its machine.
_END_WAIT_S: Final = 30.0
_PASSES_MAX: Final = 100
_ADDRESS: Final = "address"

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TaskRules:
    """How tasks of a query read; travels with their code.

    Attributes:
        rows: Which rows, and with which columns.
        fails_on_loss: Whether a loss ends the query, or is reported and skipped.
        end_wait_s: How long another machine waits for a shard to reach what the driver saw.
    """

    rows: RowRules
    fails_on_loss: bool
    end_wait_s: float = _END_WAIT_S


def read_partition(partition: InputPartition, rules: TaskRules) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's ranges, one range after the other."""
    # Where there are no tasks Spark makes one of nothing.
    if not isinstance(partition, SourceTask):
        return
    with plain_errors():
        added = () if partition.added is None else added_ranges(partition.added)
        for offsets in (*partition.ranges, *added):
            yield from read_range(offsets, rules, OPEN_READERS)


def added_ranges(added: AddedShards) -> list[ShardRange]:
    """Return what is read of what was not there when the tasks were planned."""
    added.root.require_same()
    options = added.options
    ranges = []

    def take(reader: StreamReader, snapshot: StreamSnapshot, planned: frozenset[int]) -> None:
        ends = {n: end for n, end in snapshot.ends.items() if n not in planned}
        edges = resolve_range(
            reader, replace(snapshot, ends=ends), options.starting, options.ending
        )
        for n, (begin, end) in edges.items():
            bounds = (begin.offset, end.offset)
            offsets = ShardRange(snapshot.place, n, snapshot.lineages[n], *bounds)
            ranges.append(replace(offsets, expired_until=begin.expired_until))

    for place, shards in added.planned.items():
        if shards is not None:
            with place.reader() as reader:
                take(reader, snapshot_of(reader, place.path, place.stream), shards)
    if options.subscription.pattern is not None:
        names = {place.stream for place in added.planned}
        read_each(options, lambda reader, snapshot: take(reader, snapshot, frozenset()), names)
    return ranges


def read_range(
    offsets: ShardRange, rules: TaskRules, readers: OpenReaders
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range.

    1. Find the stream on this machine, and prove that it is the one the driver saw, and no copy.
    2. Prove that its log reaches the range's end, and what the driver saw of it; on another machine
       than the driver's, wait for that in bounded time.
    3. Look for the ends that move.
    4. Yield the rows as they stand at one moment. If part of the range is gone by then, fail; or
       where losses may be skipped, warn and yield what is left.

    Raises:
        ForeignDataError: Another stream, another log of the shard, or a copy is there.
        UnavailableError: The log did not reach the end in time.
        LostRangeError: Part of the range is gone.
    """
    with readers.of(offsets.place, offsets.shard) as reader:
        _check_lineage(reader, offsets)
        _await_end(reader, offsets, rules.end_wait_s)
        offsets = at_read_time(reader, offsets)
        if rules.rows.is_empty or offsets.begin == offsets.end:
            return
        shape = StreamShape.of(reader, offsets.place.stream)
        values = _values(reader, offsets, rules.rows)
        batches = RowBatches(shape, offsets.shard, rules.rows, values)
        if rules.fails_on_loss:
            yield from batches.of(_whole(reader, offsets, rules.rows, batches.stored))
        else:
            yield from batches.of(_what_is_left(reader, offsets, rules.rows, batches.stored))
        if values is not None:
            values.tell_left_out(offsets.begin, offsets.end)


def _values(reader: StreamReader, offsets: ShardRange, rows: RowRules) -> "TypedValues | None":
    """Return what reads values by fields, None where they are bytes."""
    if rows.fields is None:
        return None
    from streaming_jobs.source.executor.typed_values import TypedValues  # noqa: PLC0415 - as above
    from streaming_jobs.source.executor.writer_schemas import WriterSchemas  # noqa: PLC0415 - as above

    writers = WriterSchemas(offsets.place, reader.shard(offsets.shard).schemas, reader.refresh)
    return TypedValues(rows.fields, writers.find, offsets.place.stream, offsets.shard)


def _missing(reader: StreamReader, offsets: ShardRange) -> Ranges:
    until = offsets.expired_until
    return tuple(reader.missing(offsets.shard, offsets.begin, offsets.end, expired_until=until))


def _check_lineage(reader: StreamReader, offsets: ShardRange) -> None:
    if reader.lineage(offsets.shard) != offsets.lineage:
        message = f"host {socket.gethostname()} has another log of the shard than the driver saw"
        raise ForeignDataError(message, stream=offsets.place.stream, shard=offsets.shard)


def _await_end(reader: StreamReader, offsets: ShardRange, wait_s: float) -> None:
    least = max(offsets.end, offsets.least)
    wait_s = 0.0 if offsets.place.is_on_this_machine else wait_s
    if not reader.wait(offsets.shard, least - 1, wait_s):
        waited = f" after {wait_s:g} s" if wait_s else ""
        message = (
            f"on host {socket.gethostname()} the log did not reach offset {least}, which the "
            f"driver saw: it ends at {reader.shard(offsets.shard).committed()}{waited}"
        )
        raise UnavailableError(message, stream=offsets.place.stream, shard=offsets.shard)


def _whole(
    reader: StreamReader, offsets: ShardRange, rows: RowRules, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield stored rows, all that were ever there, or fail."""
    try:
        yield from reader.shard(offsets.shard).scan(_request(reader, offsets, rows, columns))
    except LostRangeError as error:
        message = (
            "data were lost: these offsets have expired or are gone before they were read; "
            "failOnDataLoss=false reads on without them"
        )
        raise LostRangeError(
            message,
            stream=offsets.place.stream,
            shard=offsets.shard,
            start=max(error.start or 0, offsets.begin),
            end=min(error.end or offsets.end, offsets.end),
        ) from error


def _what_is_left(
    reader: StreamReader, offsets: ShardRange, rows: RowRules, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield stored rows, and tell of those that are gone; once, unless more goes meanwhile."""
    source = reader.shard(offsets.shard)
    request = _request(reader, offsets, rows, tuple(dict.fromkeys((*columns, _ADDRESS))))
    missing = warned = _warn_of_missing(offsets, _missing(reader, offsets), ())
    reached = offsets.begin
    for _ in range(_PASSES_MAX):
        part = _first_left(missing, reached, offsets.end)
        if part is None:
            _warn_of_missing(offsets, _missing(reader, offsets), warned)
            return
        try:
            begin, end = part
            for batch in source.scan(replace(request, start_address=begin, end_address=end)):
                yield batch
                reached = batch.column(_ADDRESS)[-1].as_py() + 1
            reached = end
        except LostRangeError:
            missing = _missing(reader, offsets)
    message = "the range went on being lost while it was read"
    raise LostRangeError(
        message, stream=offsets.place.stream, shard=offsets.shard, start=reached, end=offsets.end
    )


def _request(
    reader: StreamReader, offsets: ShardRange, rows: RowRules, columns: tuple[str, ...]
) -> ReadRequest:
    columns = columns or (_ADDRESS,)
    request = replay_request(
        offsets.shard, offsets.begin, offsets.end, columns, offsets.expired_until
    )
    # Where keys are only carried the log cannot find rows by them; row_batches.py does.
    keys = rows.keys if reader.options.key_mode == "dictionary" else None
    return replace(request, start=rows.start, end=rows.end, ids=rows.ids, keys=keys)


def _warn_of_missing(offsets: ShardRange, missing: Ranges, warned: Ranges) -> Ranges:
    """Warn of what is missing, unless that was done before; return it."""
    if missing and missing != warned:
        count = sum(end - begin for begin, end in missing)
        _LOG.warning(
            "stream %r shard %d: %d offsets of [%d, %d) were lost and are skipped: %s",
            *(offsets.place.stream, offsets.shard, count, offsets.begin, offsets.end),
            ", ".join(f"[{begin}, {end})" for begin, end in missing),
        )
    return missing


def _first_left(missing: Ranges, begin: int, end: int) -> tuple[int, int] | None:
    """Return the first range within a range of which nothing is missing."""
    for lost_begin, lost_end in missing:
        if lost_end <= begin:
            continue
        if begin < lost_begin:
            return begin, lost_begin
        begin = max(begin, lost_end)
    return (begin, end) if begin < end else None
