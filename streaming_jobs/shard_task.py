"""What one task does: read ranges of shards, and prove that nothing of them is missing.

A range is read as it was stored. Loss is what was there once and is not any more: below the
log's start, unless the shard was born above it, or a range that was acknowledged and is gone.
What the source itself no longer had when its turn came (retention had passed) was never here;
it is a gap in the offsets like those of transactions and compaction, which Kafka's own source
passes by as well. So is a lost range that an operator has accepted by name.
"""

import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from storage_core import (
    ForeignDataError,
    LostRangeError,
    StreamReader,
    UnavailableError,
)
from streaming_jobs.open_readers import OPEN_READERS, OpenReaders
from streaming_jobs.partitions import ShardRange, SourceTask
from streaming_jobs.replay_request import replay_request
from streaming_jobs.row_batches import RowBatches, StreamShape
from streaming_jobs.row_rules import RowRules

_LOG: Final = logging.getLogger("shardlog")
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
        end_wait_s: How long to wait for a shard to reach a task's end.
    """

    rows: RowRules
    fails_on_loss: bool
    end_wait_s: float = _END_WAIT_S


def read_task(
    task: SourceTask, rules: TaskRules, readers: OpenReaders = OPEN_READERS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's ranges, one range after the other."""
    for one in task.ranges:
        yield from read_range(one, rules, readers)


def read_range(
    one: ShardRange, rules: TaskRules, readers: OpenReaders = OPEN_READERS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range.

    1. Find the stream on this machine, and prove that it is the one the driver saw.
    2. Wait, bounded, until its log reaches the range's end.
    3. Compare the range with what the shard still has.
    4. Yield the rows.
    5. Compare again: what went while rows were read may be among them or not.

    Raises:
        ForeignDataError: Another stream, or another log of the shard, is there.
        UnavailableError: The log did not reach the end in time.
        LostRangeError: Part of the range is gone.
    """
    with readers.lease(one.place, one.shard) as reader:
        _check_lineage(reader, one)
        _await_end(reader, one, rules.end_wait_s)
        shape = StreamShape.of(reader, one.place.stream)
        batches = RowBatches(shape, one.shard, rules.rows)
        told = _judge(one, _missing(reader, one), rules, ())
        if rules.rows.is_empty:
            return
        yield from batches.of(_stored(reader, one, rules, batches.stored, told))
        _judge(one, _missing(reader, one), rules, told)


def _missing(reader: StreamReader, one: ShardRange) -> Ranges:
    return tuple(reader.missing(one.shard, one.begin, one.end))


def _check_lineage(reader: StreamReader, one: ShardRange) -> None:
    if reader.lineage(one.shard) != one.lineage:
        message = f"host {socket.gethostname()} has another log of the shard than the driver saw"
        raise ForeignDataError(message, stream=one.place.stream, shard=one.shard)


def _await_end(reader: StreamReader, one: ShardRange, wait_s: float) -> None:
    if not reader.wait(one.shard, one.end - 1, wait_s):
        message = (
            f"on host {socket.gethostname()} the log did not reach offset {one.end}, "
            f"which the driver saw, in {wait_s:g} s"
        )
        raise UnavailableError(message, stream=one.place.stream, shard=one.shard)


def _judge(one: ShardRange, missing: Ranges, rules: TaskRules, told: Ranges) -> Ranges:
    """Fail over what is missing, or tell of it once; return it."""
    if rules.fails_on_loss and missing:
        begin, end = missing[0]
        message = (
            "data were lost: these offsets have expired or are gone before they were read; "
            "failOnDataLoss=false reads on without them"
        )
        raise LostRangeError(
            message, stream=one.place.stream, shard=one.shard, start=begin, end=end
        )
    if missing and missing != told:
        count = sum(end - begin for begin, end in missing)
        _LOG.warning(
            "stream %r shard %d: %d offsets of [%d, %d) were lost and are passed by: %s",
            *(one.place.stream, one.shard, count, one.begin, one.end),
            ", ".join(f"[{begin}, {end})" for begin, end in missing),
        )
    return missing


def _stored(
    reader: StreamReader,
    one: ShardRange,
    rules: TaskRules,
    columns: tuple[str, ...],
    missing: Ranges,
) -> Iterator[pa.RecordBatch]:
    """Yield stored rows; where loss may be passed by, of what is left."""
    rows = rules.rows
    source = reader.shard(one.shard)
    wanted = columns if rules.fails_on_loss else tuple(dict.fromkeys((*columns, _ADDRESS)))
    request = replay_request(one.shard, one.begin, one.end, wanted or (_ADDRESS,))
    request = replace(request, start=rows.start, end=rows.end, ids=rows.ids)
    if rules.fails_on_loss:
        yield from source.scan(request)
        return
    reached = one.begin
    for _ in range(_PASSES_MAX):
        part = _first_left(missing, reached, one.end)
        if part is None:
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
        message,
        stream=one.place.stream,
        shard=one.shard,
        start=reached,
        end=one.end,
    )


def _first_left(missing: Ranges, begin: int, end: int) -> tuple[int, int] | None:
    """Return the first stretch of a range of which nothing is missing."""
    for lost_begin, lost_end in missing:
        if lost_end <= begin:
            continue
        if begin < lost_begin:
            return begin, lost_begin
        begin = max(begin, lost_end)
    return (begin, end) if begin < end else None
