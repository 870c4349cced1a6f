"""One look at a stream on the driver: what it is, and where its shards stand.

The stream's files are opened anew each time, which costs half a millisecond and no store: a
reader kept open would go on showing a stream that was deleted or made anew under its name.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from storage_core import ForeignDataError, InvalidRequestError, StreamReader, root_id
from streaming_jobs.source.offsets import SourceOffset
from streaming_jobs.source.options import SourceOptions
from streaming_jobs.stream_place import StreamPlace


@dataclass(frozen=True, slots=True)
class StreamLook:
    """A stream at one moment.

    Attributes:
        place: Where it is, and which one it is.
        lineages: Each shard's.
        ends: Each shard's committed.
    """

    place: StreamPlace
    lineages: Mapping[int, str]
    ends: Mapping[int, int]


@contextmanager
def opened(options: SourceOptions) -> Iterator[StreamReader]:
    """Open the stream for as long as a block lasts.

    Raises:
        InvalidRequestError: There is no such stream, or it cannot be read as asked.
    """
    with StreamReader.open(options.path, options.stream) as reader:
        if options.rules.ids is not None and not shows_ids(reader):
            message = f"option ids: stream {options.stream!r} has no integer ids; use keys"
            raise InvalidRequestError(message)
        is_by_time = options.starting.is_time or options.ending.is_time
        if is_by_time and reader.origin is None and reader.options.unit == "sequence":
            message = f"timestamps say nothing here: stream {options.stream!r} counts a sequence"
            raise InvalidRequestError(message)
        yield reader


def look(reader: StreamReader, path: str, stream: str) -> StreamLook:
    """Return where an open stream stands, by one look at each shard's marker."""
    position = reader.position()
    return StreamLook(
        StreamPlace(path, stream, root_id(path), position.incarnation),
        {shard: place.lineage for shard, place in position.shards.items()},
        {shard: place.address for shard, place in position.shards.items()},
    )


def shows_ids(reader: StreamReader) -> bool:
    """Tell whether secondaries mean something outside their shard."""
    if reader.options.key_mode == "dictionary":
        return False
    return reader.origin is None or reader.origin.key_mode == "integer"


def check_same_stream(known: SourceOffset, seen: StreamLook) -> None:
    """Refuse to go on where another stream, or another log of a shard, has taken the place."""
    stream, incarnation = seen.place.stream, seen.place.incarnation
    if known.incarnation not in (None, incarnation):
        message = (
            "the stream was made anew since this offset was written: it is incarnation "
            f"{incarnation}, the offset is of {known.incarnation}; "
            "a new checkpoint begins anew"
        )
        raise ForeignDataError(message, stream=stream)
    for shard, lineage in (known.lineages or {}).items():
        if seen.lineages.get(shard) != lineage:
            message = (
                "the shard was made anew since this offset was written; "
                "a new checkpoint begins anew"
            )
            raise ForeignDataError(message, stream=stream, shard=shard)
    gone = sorted(set(known.ends) - set(seen.ends))
    if gone:
        message = f"there are no shards {gone}; there are {sorted(seen.ends)}"
        raise InvalidRequestError(message, stream=stream)
