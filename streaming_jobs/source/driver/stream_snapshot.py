"""Snapshots of streams on the driver: what they are, and where their shards stand.

A stream's files are opened each time, which costs half a millisecond and no store: a
reader kept open would go on showing a stream that was deleted or re-created under its name. One
stream is open at a time, however many are read.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    SchemaEntry,
    StreamReader,
    list_streams,
)
from storage_core.owners_reader import root_of
from streaming_jobs.common.stream_location import StreamLocation
from streaming_jobs.source.driver.bounds import EARLIEST
from streaming_jobs.source.driver.offsets import StreamOffset, encode_ends
from streaming_jobs.source.options import SourceOptions

_LOG: Final = logging.getLogger("shardlog")

T = TypeVar("T")

# A shard of a root: its stream's name, and its number.
ShardName = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """A stream at one moment.

    Attributes:
        place: Where it is, and which one it is.
        lineages: Each shard's.
        ends: Each shard's committed.
    """

    place: StreamLocation
    lineages: Mapping[int, str]
    ends: Mapping[int, int]


def read_each(
    options: SourceOptions,
    read: Callable[[StreamReader, StreamSnapshot], T],
    except_for: Collection[str] = (),
) -> dict[str, T]:
    """Return what each stream that is read now answers, by its name, besides some.

    Raises:
        InvalidRequestError: As of `opened`, or there is no such root.
    """
    answers = {}
    for stream in options.subscription.streams(options.path):
        if stream in except_for:
            continue
        try:
            with opened(options, stream) as (reader, snapshot):
                answers[stream] = read(reader, _assigned(options, snapshot))
        except InvalidRequestError:
            is_named = options.subscription.pattern is None
            if is_named or stream in list_streams(options.path):
                raise
            # It was dropped since the streams were listed.
    return answers


def schemas_of_streams(options: SourceOptions) -> list[list[SchemaEntry]]:
    """Return the schemas by which rows of each stream were written."""
    return list(read_each(options, lambda reader, _: reader.schemas()).values())


def check_streams(options: SourceOptions) -> None:
    """Refuse what cannot be read as asked, and tell of what may surprise.

    Raises:
        InvalidRequestError: As of `read_each`.
    """
    topics = read_each(options, _topic)
    if not topics:
        _LOG.warning("there are no %s under %s yet", options.subscription.label(), options.path)
    for topic in sorted(set(topics.values())):
        alike = [stream for stream, other in topics.items() if other == topic]
        if len(alike) > 1:
            _LOG.warning(
                "streams %s show the same topic, %r: topic, partition and offset do not tell their "
                "rows apart",
                *(alike, topic),
            )


@contextmanager
def opened(options: SourceOptions, stream: str) -> Iterator[tuple[StreamReader, StreamSnapshot]]:
    """Open a stream for as long as a block lasts, with a snapshot of all of its shards.

    Raises:
        InvalidRequestError: There is no such stream, or it cannot be read as asked.
    """
    try:
        with StreamReader.open(options.path, stream) as reader:
            if options.rules.ids is not None and not reader.has_ids:
                message = f"option ids: stream {stream!r} has no integer ids; use keys"
                raise InvalidRequestError(message)
            is_by_time = options.starting.is_time or options.ending.is_time
            if is_by_time and reader.origin is None and reader.options.unit == "sequence":
                message = f"timestamps say nothing here: stream {stream!r} counts a sequence"
                raise InvalidRequestError(message)
            yield reader, snapshot_of(reader, options.path, stream)
    except CorruptionError as error:
        # Its files are opened one after the other: it may have been dropped between two.
        if stream in list_streams(options.path):
            raise
        message = "there is no such stream: it was dropped"
        raise InvalidRequestError(message, stream=stream) from error


def snapshot_of(reader: StreamReader, path: str, stream: str) -> StreamSnapshot:
    """Return a snapshot of an open stream, from each shard's marker."""
    position = reader.position()
    return StreamSnapshot(
        StreamLocation.here(path, stream, root_of(reader, path), position.incarnation),
        {shard: place.lineage for shard, place in position.shards.items()},
        {shard: place.address for shard, place in position.shards.items()},
    )


def topic_of(reader: StreamReader, stream: str) -> str:
    """Return what stands in the column `topic` of a stream's rows."""
    return stream if reader.origin is None else reader.origin.topic


def _topic(reader: StreamReader, snapshot: StreamSnapshot) -> str:
    return topic_of(reader, snapshot.place.stream)


def _assigned(options: SourceOptions, snapshot: StreamSnapshot) -> StreamSnapshot:
    """Return the snapshot of the shards that are read, all unless some were assigned."""
    if options.subscription.shards is None:
        return snapshot
    shards = options.subscription.shards.get(snapshot.place.stream, frozenset(snapshot.ends))
    unknown = sorted(shards - set(snapshot.ends))
    if unknown:
        message = f"option assign: there are no shards {unknown}; there are {sorted(snapshot.ends)}"
        raise InvalidRequestError(message, stream=snapshot.place.stream)
    return StreamSnapshot(
        snapshot.place,
        {shard: snapshot.lineages[shard] for shard in sorted(shards)},
        {shard: snapshot.ends[shard] for shard in sorted(shards)},
    )


def check_same_stream(
    offset: StreamOffset, snapshot: StreamSnapshot, begins: Mapping[int, int] | None = None
) -> None:
    """Refuse to go on where another stream, or another log of a shard, has taken the place.

    NOTE: a log that began from the lake has the rows of the one before it, but nobody can tell
    here whether what a query read above them came to it from Kafka too.

    Args:
        offset: What a query has read, or is about to.
        snapshot: The stream.
        begins: Up to where its batches were committed; if None all of the offset.
    """
    stream, incarnation = snapshot.place.stream, snapshot.place.incarnation
    goes_on = _goes_on(offset.ends if begins is None else begins, snapshot)
    if offset.incarnation not in (None, incarnation):
        message = (
            "the stream was re-created since this offset was written, or is that of another root: "
            f"it is incarnation {incarnation}, the offset is of {offset.incarnation}; {goes_on}"
        )
        raise ForeignDataError(message, stream=stream)
    for shard, lineage in (offset.lineages or {}).items():
        if snapshot.lineages.get(shard) != lineage:
            message = (
                "the shard was re-created since this offset was written, by a reset or from the "
                f"lake; {goes_on}"
            )
            raise ForeignDataError(message, stream=stream, shard=shard)
    gone = sorted(set(offset.ends) - set(snapshot.ends))
    if gone:
        message = f"there are no shards {gone}; there are {sorted(snapshot.ends)}"
        raise InvalidRequestError(message, stream=stream)


def _goes_on(begins: Mapping[int, int], snapshot: StreamSnapshot) -> str:
    """Say how to go on where a checkpoint does not hold: with each shard that is there."""
    starting = {shard: begins.get(shard, EARLIEST) for shard in snapshot.ends}
    gone = sorted(set(begins) - set(snapshot.ends))
    text = json.dumps(encode_ends({snapshot.place.stream: starting}))
    return (
        "begin with a new checkpoint, and if the shards began from the lake, whose rows keep their "
        f"offsets, with startingOffsets={text}"
    ) + (f"; shards {gone}, which the query has read, are not here" if gone else "")
