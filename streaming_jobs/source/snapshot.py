"""A snapshot: where all shards of a stream stand at one moment, for reads that share the moment.

    text = snapshot(root, stream)            option("snapshot", text): these rows, every time
    option("snapshot", "now")                taken when the frame is loaded, for this frame

It is written as the offset of a query that began at the log's start (offsets.py: `birth` is where
it begins), so a stream may go on from it: option("startingOffsets", text). Frames over one
snapshot show the same rows in every action, however they are joined; shards that are added later
are no part of it. What has expired since is a loss, not fewer rows.
"""

import json
from os import PathLike, fspath
from typing import Final

from storage_core import InvalidRequestError, StreamReader
from streaming_jobs.source.bounds import EARLIEST, LATEST, Bound, Edge
from streaming_jobs.source.look import StreamLook, check_same_stream, look
from streaming_jobs.source.offsets import SourceOffset, encode_offset
from streaming_jobs.source.resolving import resolve_range

_ALL: Final = (Bound(EARLIEST), Bound(LATEST))


def snapshot(path: str | PathLike[str], stream: str) -> str:
    """Return where a stream begins and ends now; for `option("snapshot", …)`.

    Raises:
        InvalidRequestError: There is no such root or stream.
    """
    with StreamReader.open(path, stream) as reader:
        return json.dumps(encode_offset(stream, take(reader, fspath(path), stream)))


def take(
    reader: StreamReader, path: str, stream: str, bounds: tuple[Bound, Bound] = _ALL
) -> SourceOffset:
    """Return what lies between two bounds of an open stream at this moment."""
    seen = look(reader, path, stream)
    edges = resolve_range(reader, seen, *bounds)
    begins = {shard: begin.offset for shard, (begin, _) in edges.items()}
    ends = {shard: end.offset for shard, (_, end) in edges.items()}
    expired = {shard: begin.expired_until for shard, (begin, _) in edges.items()}
    return SourceOffset(ends, seen.place.incarnation, seen.lineages, begins, expired)


def edges_of(taken: SourceOffset, seen: StreamLook) -> dict[int, tuple[Edge, Edge]]:
    """Return the edges of a snapshot, once it is known to be of this stream.

    Raises:
        ForeignDataError: It was taken of another stream, or of another log of a shard.
        InvalidRequestError: It ends above the log.
    """
    check_same_stream(taken, seen)
    births = taken.birth or {}
    for shard, end in taken.ends.items():
        if end > seen.ends[shard]:
            message = f"the snapshot ends at offset {end}, beyond the log's, {seen.ends[shard]}"
            raise InvalidRequestError(message, stream=seen.place.stream, shard=shard)
    begins = {n: Edge(birth, None, taken.expired.get(n, 0)) for n, birth in births.items()}
    return {shard: (begins[shard], Edge(end)) for shard, end in taken.ends.items()}
