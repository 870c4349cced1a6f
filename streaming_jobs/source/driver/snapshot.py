"""A snapshot: where all shards of streams stand at one moment, for reads that share the moment.

    text = snapshot(root, stream)            option("snapshot", text): these rows, every time
    text = snapshot(root, "a,b")             of several streams, as option subscribe names them
    option("snapshot", "now")                taken when the frame is loaded, for this frame

It is written as the offset of a query that began at the log's start (offsets.py: `birth` is where
it begins), so a stream may go on from it: option("startingOffsets", text). Frames over one
snapshot show the same rows in every action, however they are joined; shards and streams that are
added later are no part of it. What has expired since is a loss, not fewer rows.
"""

import json
from os import PathLike, fspath

from storage_core import InvalidRequestError, StreamReader
from streaming_jobs.source.driver.bounds import Edge
from streaming_jobs.source.driver.offsets import SourceOffset, StreamOffset, encode_offset
from streaming_jobs.source.driver.resolving import resolve_range
from streaming_jobs.source.driver.stream_snapshot import (
    StreamSnapshot,
    check_same_stream,
    read_each,
)
from streaming_jobs.source.options import SourceOptions, parse_source_options


def snapshot(path: str | PathLike[str], stream: str) -> str:
    """Return where a stream, or several separated by commas, begin and end now.

    Raises:
        InvalidRequestError: There is no such root or stream.
    """
    options = parse_source_options({"path": fspath(path), "subscribe": stream})
    return json.dumps(encode_offset(take(options)))


def take(options: SourceOptions) -> SourceOffset:
    """Return what lies between the bounds of options at this moment."""

    def offset_of(reader: StreamReader, current: StreamSnapshot) -> StreamOffset:
        edges = resolve_range(reader, current, options.starting, options.ending)
        begins = {shard: begin.offset for shard, (begin, _) in edges.items()}
        ends = {shard: end.offset for shard, (_, end) in edges.items()}
        expired = {shard: begin.expired_until for shard, (begin, _) in edges.items()}
        return StreamOffset(ends, current.place.incarnation, current.lineages, begins, expired)

    return SourceOffset(read_each(options, offset_of))


def edges_of(taken: StreamOffset, current: StreamSnapshot) -> dict[int, tuple[Edge, Edge]]:
    """Return the edges of a stream in a snapshot, once it is known to be of this stream.

    Raises:
        ForeignDataError: It was taken of another stream, or of another log of a shard.
        InvalidRequestError: It ends above the log.
    """
    check_same_stream(taken, current)
    births = taken.birth or {}
    for shard, end in taken.ends.items():
        if end > current.ends[shard]:
            message = f"the snapshot ends at offset {end}, beyond the log's, {current.ends[shard]}"
            raise InvalidRequestError(message, stream=current.place.stream, shard=shard)
    begins = {n: Edge(birth, None, taken.expired.get(n, 0)) for n, birth in births.items()}
    return {shard: (begins[shard], Edge(end)) for shard, end in taken.ends.items()}
