"""What one task does: read ranges of shards, and prove that nothing of them is missing.

A range is read as it was stored. Loss is what was there once and is not any more: below the
log's start, unless the shard was born above it, or a range that was acknowledged and is gone.
What had expired when a query, or the
task of a frame that follows the log, began with earliest or a time was never owed to it.
What the source itself no longer had when its turn came (retention had passed) was never here;
it is a gap in the offsets like those of transactions and compaction, which Kafka's own source
passes by as well. So is a lost range that an operator has accepted by name.
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
from streaming_jobs.source.driver.resolving import resolve_range, settled
from streaming_jobs.source.driver.snapshot_reads import StreamLook, ask_each, look
from streaming_jobs.source.executor.open_readers import OPEN_READERS, OpenReaders
from streaming_jobs.source.executor.row_batches import RowBatches, StreamShape
from streaming_jobs.source.partitions import Added, ShardRange, SourceTask
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
        fails_on_loss: Whether a loss ends the query, or is told and passed by.
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
        for one in (*partition.ranges, *added):
            yield from read_range(one, rules, OPEN_READERS)


def added_ranges(added: Added) -> list[ShardRange]:
    """Return what is read of what was not there when the tasks were planned."""
    added.root.require_same()
    options = added.options
    ranges = []

    def take(reader: StreamReader, seen: StreamLook, known: frozenset[int]) -> None:
        ends = {n: end for n, end in seen.ends.items() if n not in known}
        edges = resolve_range(reader, replace(seen, ends=ends), options.starting, options.ending)
        for n, (begin, end) in edges.items():
            bounds = (begin.offset, end.offset)
            one = ShardRange(seen.place, n, seen.lineages[n], *bounds)
            ranges.append(replace(one, expired_until=begin.expired_until))

    for place, shards in added.known.items():
        if shards is not None:
            with place.reader() as reader:
                take(reader, look(reader, place.path, place.stream), shards)
    if options.subscription.pattern is not None:
        names = {place.stream for place in added.known}
        ask_each(options, lambda reader, seen: take(reader, seen, frozenset()), names)
    return ranges


def read_range(one: ShardRange, rules: TaskRules, readers: OpenReaders) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range.

    1. Find the stream on this machine, and prove that it is the one the driver saw, and no copy.
    2. Prove that its log reaches the range's end, and what the driver saw of it; on another machine
       than the driver's, wait for that in bounded time.
    3. Look for the ends that move.
    4. Yield the rows as they stand at one moment. If part of the range is gone by then, fail; or
       where loss may be passed by, tell of it and yield what is left.

    Raises:
        ForeignDataError: Another stream, another log of the shard, or a copy is there.
        UnavailableError: The log did not reach the end in time.
        LostRangeError: Part of the range is gone.
    """
    with readers.of(one.place, one.shard) as reader:
        _check_lineage(reader, one)
        _await_end(reader, one, rules.end_wait_s)
        one = settled(reader, one)
        if rules.rows.is_empty or one.begin == one.end:
            return
        shape = StreamShape.of(reader, one.place.stream)
        values = _values(reader, one, rules.rows)
        batches = RowBatches(shape, one.shard, rules.rows, values)
        if rules.fails_on_loss:
            yield from batches.of(_whole(reader, one, rules.rows, batches.stored))
        else:
            yield from batches.of(_what_is_left(reader, one, rules.rows, batches.stored))
        if values is not None:
            values.tell_left_out(one.begin, one.end)


def _values(reader: StreamReader, one: ShardRange, rows: RowRules) -> "TypedValues | None":
    """Return what reads values by fields, None where they are bytes."""
    if rows.fields is None:
        return None
    from streaming_jobs.source.executor.typed_values import TypedValues  # noqa: PLC0415 - as told above
    from streaming_jobs.source.executor.writer_schemas import WriterSchemas  # noqa: PLC0415 - as above

    writers = WriterSchemas(one.place, reader.shard(one.shard).schemas, reader.refresh)
    return TypedValues(rows.fields, writers.find, one.place.stream, one.shard)


def _missing(reader: StreamReader, one: ShardRange) -> Ranges:
    until = one.expired_until
    return tuple(reader.missing(one.shard, one.begin, one.end, expired_until=until))


def _check_lineage(reader: StreamReader, one: ShardRange) -> None:
    if reader.lineage(one.shard) != one.lineage:
        message = f"host {socket.gethostname()} has another log of the shard than the driver saw"
        raise ForeignDataError(message, stream=one.place.stream, shard=one.shard)


def _await_end(reader: StreamReader, one: ShardRange, wait_s: float) -> None:
    least = max(one.end, one.least)
    wait_s = 0.0 if one.place.is_on_this_machine else wait_s
    if not reader.wait(one.shard, least - 1, wait_s):
        waited = f" after {wait_s:g} s" if wait_s else ""
        message = (
            f"on host {socket.gethostname()} the log did not reach offset {least}, which the "
            f"driver saw: it ends at {reader.shard(one.shard).committed()}{waited}"
        )
        raise UnavailableError(message, stream=one.place.stream, shard=one.shard)


def _whole(
    reader: StreamReader, one: ShardRange, rows: RowRules, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield stored rows, all that were ever there, or fail."""
    try:
        yield from reader.shard(one.shard).scan(_request(reader, one, rows, columns))
    except LostRangeError as error:
        message = (
            "data were lost: these offsets have expired or are gone before they were read; "
            "failOnDataLoss=false reads on without them"
        )
        raise LostRangeError(
            message,
            stream=one.place.stream,
            shard=one.shard,
            start=max(error.start or 0, one.begin),
            end=min(error.end or one.end, one.end),
        ) from error


def _what_is_left(
    reader: StreamReader, one: ShardRange, rows: RowRules, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield stored rows, and tell of those that are gone; once, unless more goes meanwhile."""
    source = reader.shard(one.shard)
    request = _request(reader, one, rows, tuple(dict.fromkeys((*columns, _ADDRESS))))
    missing = told = _told(one, _missing(reader, one), ())
    reached = one.begin
    for _ in range(_PASSES_MAX):
        part = _first_left(missing, reached, one.end)
        if part is None:
            _told(one, _missing(reader, one), told)
            return
        try:
            begin, end = part
            for batch in source.scan(replace(request, start_address=begin, end_address=end)):
                yield batch
                reached = batch.column(_ADDRESS)[-1].as_py() + 1
            reached = end
        except LostRangeError:
            missing = _missing(reader, one)
    message = "the range went on being lost while it was read"
    raise LostRangeError(
        message, stream=one.place.stream, shard=one.shard, start=reached, end=one.end
    )


def _request(
    reader: StreamReader, one: ShardRange, rows: RowRules, columns: tuple[str, ...]
) -> ReadRequest:
    columns = columns or (_ADDRESS,)
    request = replay_request(one.shard, one.begin, one.end, columns, one.expired_until)
    # Where keys are only carried the log cannot find rows by them; row_batches.py does.
    keys = rows.keys if reader.options.key_mode == "dictionary" else None
    return replace(request, start=rows.start, end=rows.end, ids=rows.ids, keys=keys)


def _told(one: ShardRange, missing: Ranges, told: Ranges) -> Ranges:
    """Warn of what is missing, unless it was told already; return it."""
    if missing and missing != told:
        count = sum(end - begin for begin, end in missing)
        _LOG.warning(
            "stream %r shard %d: %d offsets of [%d, %d) were lost and are passed by: %s",
            *(one.place.stream, one.shard, count, one.begin, one.end),
            ", ".join(f"[{begin}, {end})" for begin, end in missing),
        )
    return missing


def _first_left(missing: Ranges, begin: int, end: int) -> tuple[int, int] | None:
    """Return the first stretch of a range of which nothing is missing."""
    for lost_begin, lost_end in missing:
        if lost_end <= begin:
            continue
        if begin < lost_begin:
            return begin, lost_begin
        begin = max(begin, lost_end)
    return (begin, end) if begin < end else None
