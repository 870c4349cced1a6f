"""From the bounds that options ask for to the offsets of each shard; on the driver.

A timestamp is looked for among the rows themselves: the least offset whose timestamp is not
below it. Where the primary is the timestamp, zones skip the blocks that are too early; where
it is not (primaries that are offsets), timestamps are read from the log's start on.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from storage_core import InvalidRequestError, StreamReader
from streaming_jobs.bounds import EARLIEST, LATEST, Bound
from streaming_jobs.offsets import decode_offset
from streaming_jobs.option_values import INT64_MAX
from streaming_jobs.replay_request import replay_request
from streaming_jobs.stream_look import StreamLook, check_same_stream

_UNITS_A_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def resolve(reader: StreamReader, seen: StreamLook, bound: Bound, stream: str) -> dict[int, int]:
    """Return the offset of each shard that a bound means.

    Raises:
        InvalidRequestError: It names shards there are not, leaves some out, lies beyond the
            end, or no record is as late as a timestamp.
        ForeignDataError: It comes from a query on a stream that was made anew since.
    """
    if bound.everywhere is not None:
        asked = dict.fromkeys(seen.ends, bound.everywhere)
    else:
        asked = dict(bound.by_shard or {})
    if bound.identity is not None:
        whole = {stream: {str(n): at for n, at in asked.items()}, "@": bound.identity}
        check_same_stream(decode_offset(stream, whole), seen, stream)
    if set(asked) != set(seen.ends):
        message = f"offsets are given for shards {sorted(asked)}; there are {sorted(seen.ends)}"
        raise InvalidRequestError(message, stream=stream)
    if bound.is_time:
        return {n: _at_time(reader, seen, bound, n, at) for n, at in sorted(asked.items())}
    return {n: _at_offset(reader, seen, stream, n, at) for n, at in sorted(asked.items())}


def resolve_range(
    reader: StreamReader, seen: StreamLook, starting: Bound, ending: Bound, stream: str
) -> dict[int, tuple[int, int]]:
    """Return the offsets of each shard that lie between two bounds.

    Raises:
        InvalidRequestError: As of `resolve`, or a shard's start lies above its end.
        ForeignDataError: As of `resolve`.
    """
    begins = resolve(reader, seen, starting, stream)
    ends = resolve(reader, seen, ending, stream)
    for shard, begin in begins.items():
        if begin > ends[shard]:
            message = f"the start, offset {begin}, lies above the end, {ends[shard]}"
            raise InvalidRequestError(message, stream=stream, shard=shard)
    return {shard: (begin, ends[shard]) for shard, begin in begins.items()}


def _at_offset(reader: StreamReader, seen: StreamLook, stream: str, shard: int, asked: int) -> int:
    if asked == EARLIEST:
        return reader.start(shard)
    end = seen.ends[shard]
    if asked == LATEST:
        return end
    if asked > end:
        message = f"offset {asked} lies beyond the end, {end}"
        raise InvalidRequestError(message, stream=stream, shard=shard)
    return asked


def _at_time(
    reader: StreamReader, seen: StreamLook, bound: Bound, shard: int, timestamp_ms: int
) -> int:
    found = first_offset_at(reader, shard, timestamp_ms, seen.ends[shard])
    if found is not None:
        return found
    if bound.without_match == "error":
        message = (
            f"no record has timestamp {timestamp_ms} or a later one; "
            "startingOffsetsByTimestampStrategy=latest begins at the end instead"
        )
        raise InvalidRequestError(message, shard=shard)
    return seen.ends[shard]


def first_offset_at(reader: StreamReader, shard: int, timestamp_ms: int, end: int) -> int | None:
    """Return the least offset whose timestamp is not below one in milliseconds, if any is."""
    origin = reader.origin
    if origin is not None and origin.primary != "timestamp":
        return _first_by_column(reader, shard, timestamp_ms, end)
    per_second = _UNITS_A_SECOND[reader.options.unit]
    least = min(-(-timestamp_ms * per_second // 1000), INT64_MAX)
    request = replace(replay_request(shard, None, end, ("address",)), start=least)
    for batch in reader.shard(shard).scan(request):
        return int(batch.column(0)[0].as_py())
    return None


def _first_by_column(reader: StreamReader, shard: int, timestamp_ms: int, end: int) -> int | None:
    request = replay_request(shard, None, end, ("address", "timestamp"))
    for batch in reader.shard(shard).scan(request):
        stamps = batch.column("timestamp").fill_null(-1).to_numpy()
        late_enough = np.flatnonzero(stamps >= timestamp_ms)
        if len(late_enough):
            return int(batch.column("address")[int(late_enough[0])].as_py())
    return None
