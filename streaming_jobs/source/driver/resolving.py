"""From the bounds that options ask for to the offsets of each shard.

The driver finds them once. What is not a given offset moves with the log: a task resolves it
again when it reads (`at_read_time`), so that a frame which Spark has planned once shows in each
action what is there by then.

A timestamp is looked for among the rows themselves: the least offset whose timestamp is not
below it. Where the primary is the timestamp, zones skip the blocks that are too early; where
it is not (primaries that are offsets), timestamps are read from the log's start on.

Earliest, and a time, begin with the first row that is there. What had expired by then, below that
row or behind it, was never owed to whoever begins; each such edge carries the shard's generation,
since which whatever expires is a loss.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from storage_core import (
    INT64_MAX,
    UNITS_PER_SECOND,
    InvalidRequestError,
    ReadRequest,
    StreamReader,
)
from streaming_jobs.source.driver.bounds import EARLIEST, LATEST, Bound, Edge, Move
from streaming_jobs.source.driver.offsets import StreamOffset, decode_offset
from streaming_jobs.source.driver.stream_snapshot import StreamSnapshot, check_same_stream
from streaming_jobs.source.partitions import ShardRange
from streaming_jobs.source.requests import replay_request


def resolve(reader: StreamReader, snapshot: StreamSnapshot, bound: Bound) -> dict[int, Edge]:
    """Return where a bound lies in each shard.

    Raises:
        InvalidRequestError: It names shards there are not, leaves some out, lies beyond the
            end, or no record is as late as a timestamp.
        ForeignDataError: It comes from a query on a stream that was re-created since.
    """
    stream = snapshot.place.stream
    if not bound.tells_of(stream):
        message = "no offsets are given for the stream; give those of each that is read"
        raise InvalidRequestError(message, stream=stream)
    if bound.everywhere is not None:
        offsets = dict.fromkeys(snapshot.ends, bound.everywhere)
    else:
        offsets = dict((bound.by_stream or {})[stream])
    if set(offsets) != set(snapshot.ends):
        message = (
            f"offsets are given for shards {sorted(offsets)}; there are {sorted(snapshot.ends)}"
        )
        raise InvalidRequestError(message, stream=stream)
    if bound.identity is not None:
        check_same_stream(_offset_of(bound, stream), snapshot)
    if bound.is_time:
        return {n: _at_time(reader, snapshot, bound, n, at) for n, at in sorted(offsets.items())}
    return {n: _at_offset(reader, snapshot, n, at) for n, at in sorted(offsets.items())}


def require_streams(bound: Bound, streams: Collection[str]) -> None:
    """Refuse a bound that names streams that do not exist.

    Raises:
        InvalidRequestError: It does.
    """
    for stream in sorted(set(bound.by_stream or {}) - set(streams)):
        message = "there is no such stream, but offsets are given for it"
        raise InvalidRequestError(message, stream=stream)


def _offset_of(bound: Bound, stream: str) -> StreamOffset:
    """Return the offset of a stream that a bound was taken from."""
    ends = {
        name: {str(shard): at for shard, at in shards.items()}
        for name, shards in (bound.by_stream or {}).items()
    }
    return decode_offset({**ends, "@": bound.identity}).streams[stream]


def resolve_range(
    reader: StreamReader, snapshot: StreamSnapshot, starting: Bound, ending: Bound
) -> dict[int, tuple[Edge, Edge]]:
    """Return the edges of each shard's part between two bounds.

    Raises:
        InvalidRequestError: As of `resolve`, or a shard's start lies above its end.
        ForeignDataError: As of `resolve`.
    """
    begins = resolve(reader, snapshot, starting)
    if starting.is_time:
        # The first record of a time stays where it is until it expires.
        begins = {n: replace(edge, move=edge.move or Move()) for n, edge in begins.items()}
    ends = resolve(reader, snapshot, ending)
    for shard, begin in begins.items():
        end = ends[shard]
        if begin.offset > end.offset:
            message = f"the start, offset {begin.offset}, lies above the end, {end.offset}"
            raise InvalidRequestError(message, stream=snapshot.place.stream, shard=shard)
    return {shard: (begin, ends[shard]) for shard, begin in begins.items()}


def at_read_time(reader: StreamReader, planned: ShardRange) -> ShardRange:
    """Return a range as it lies at this moment, where some of its edges move."""
    start_move, end_move = planned.moves
    if start_move is None and end_move is None:
        return planned
    begin, end, until = planned.begin, planned.end, planned.expired_until
    committed = max(end, reader.shard(planned.shard).committed())
    if start_move is not None:
        start, until = reader.horizon(planned.shard)
        begin = max(begin, start)
        if start_move.time_ms is not None:
            begin = _first_from(reader, planned.shard, start_move.time_ms, begin, committed, until)
    if end_move is not None:
        if end_move.time_ms is None:
            end = committed
        else:
            _, now = reader.horizon(planned.shard)
            end = _first_from(reader, planned.shard, end_move.time_ms, end, committed, now)
    return replace(planned, begin=begin, end=max(begin, end), expired_until=until)


def _at_offset(reader: StreamReader, snapshot: StreamSnapshot, shard: int, offset: int) -> Edge:
    if offset == EARLIEST:
        start, generation = reader.horizon(shard)
        return Edge(start, Move(), generation)
    end = snapshot.ends[shard]
    if offset == LATEST:
        return Edge(end, Move())
    if offset > end:
        message = f"offset {offset} lies beyond the end, {end}"
        raise InvalidRequestError(message, stream=snapshot.place.stream, shard=shard)
    return Edge(offset)


def _at_time(
    reader: StreamReader, snapshot: StreamSnapshot, bound: Bound, shard: int, timestamp_ms: int
) -> Edge:
    end = snapshot.ends[shard]
    start, generation = reader.horizon(shard)
    offset = _first_from(reader, shard, timestamp_ms, min(start, end), end, generation)
    if offset < end:
        return Edge(offset, None, generation)
    if bound.without_match == "error":
        message = (
            f"no record has timestamp {timestamp_ms} or a later one; "
            "startingOffsetsByTimestampStrategy=latest begins at the end instead"
        )
        raise InvalidRequestError(message, stream=snapshot.place.stream, shard=shard)
    return Edge(end, Move(timestamp_ms))


def _first_from(  # noqa: PLR0913 - a time, a range, and what of it may be gone
    reader: StreamReader, shard: int, timestamp_ms: int, begin: int, end: int, expired_until: int
) -> int:
    """Return the first offset of a time in a range, and the range's end if none has it."""
    origin = reader.origin
    if origin is not None and origin.primary != "timestamp":
        columns = ("address", "timestamp")
        request = replay_request(shard, begin, end, columns, expired_until)
        return _first_by_column(reader, request, timestamp_ms, end)
    per_second = UNITS_PER_SECOND[reader.options.unit]
    least = min(-(-timestamp_ms * per_second // 1000), INT64_MAX)
    request = replay_request(shard, begin, end, ("address",), expired_until)
    for batch in reader.shard(shard).scan(replace(request, start=least)):
        return int(batch.column(0)[0].as_py())
    return end


def _first_by_column(
    reader: StreamReader, request: ReadRequest, timestamp_ms: int, end: int
) -> int:
    for batch in reader.shard(request.shard).scan(request):
        stamps = batch.column("timestamp").fill_null(-1).to_numpy()
        late_enough = np.flatnonzero(stamps >= timestamp_ms)
        if len(late_enough):
            return int(batch.column("address")[int(late_enough[0])].as_py())
    return end
