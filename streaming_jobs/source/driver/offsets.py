"""The offset of a query: how far each shard was read, of which streams exactly, and since where.

    {"<stream>": {"0": n, …},
     "@": {"v": 1, "incarnation": …, "lineage": {"0": …}, "birth": {"0": n},
           "expired": {"0": g}, "schema": null}}

is of one stream. Of several, and of none that match a pattern yet,

    {"<stream>": {"0": n, …}, "<other>": {…},
     "@": {"v": 2, "streams": {"<stream>": {"incarnation": …, "lineage": …, "birth": …,
           "expired": …}, "<other>": {…}}, "schema": null}}

Without `@` it is as Kafka's source has it, and a user may write it so. Spark keeps the text
verbatim and compares texts, so equal offsets are always written alike: streams by name, shards by
number.

`birth` is where a query began to read a stream. `initialOffset` has none; the first `latestOffset`
copies its start there, and every later one carries it on. Spark asks for the initial offset again
before batch 0 is committed, each time the log may have grown; the range of a batch whose start has
no birth begins at its end's birth, so that no answer but the first counts. A stream that joins
later has its birth in the first offset that has it.

`expired` is each shard's generation at that time, where the query began with what was there: what
had expired by then is no loss. It goes the way of `birth`; an offset without it owes every row.

Where values are read by fields, `schema` is the identity of the schema that they are read by, and
`schemaText` the schema itself, so that another one can be held against it after a restart.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storage_core import InvalidRequestError, UnsupportedFormatError
from streaming_jobs.common.option_values import shortened

_IDENTITY: Final = "@"
_OF_ONE: Final = 1
_OF_SEVERAL: Final = 2
_OF_SCHEMA: Final = ("schema", "schemaText")


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a query has come in one stream.

    Attributes:
        ends: For each shard the next offset to read.
        incarnation: The stream's, None where nobody said.
        lineages: Each shard's, None where nobody said.
        birth: Where the query began, None where it has not yet.
        expired: The generation of each shard whose rows it owes only as of then; 0 is none.
    """

    ends: Mapping[int, int]
    incarnation: str | None = None
    lineages: Mapping[int, str] | None = None
    birth: Mapping[int, int] | None = None
    expired: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """How far a query has come.

    Attributes:
        streams: In each stream, by name.
        schema: The identity of the schema by which values are read; None where they are not.
        schema_text: The schema, None as above.
    """

    streams: Mapping[str, StreamOffset]
    schema: str | None = None
    schema_text: str | None = None


def encode_offset(offset: SourceOffset) -> dict[str, Any]:
    """Return an offset as Spark keeps it."""
    identity: dict[str, Any]
    if len(offset.streams) == 1:
        (stream,) = offset.streams.values()
        identity = {"v": _OF_ONE, **_identity(stream)}
    else:
        several = {name: _identity(offset.streams[name]) for name in sorted(offset.streams)}
        identity = {"v": _OF_SEVERAL, "streams": several}
    identity["schema"] = offset.schema
    if offset.schema_text is not None:
        identity["schemaText"] = offset.schema_text
    ends = encode_ends({name: stream.ends for name, stream in offset.streams.items()})
    return {**ends, _IDENTITY: identity}


def encode_ends(ends: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    """Return offsets alone, as Kafka's source writes them."""
    return {stream: _by_number(ends[stream]) for stream in sorted(ends)}


def decode_offset(document: Mapping[str, Any]) -> SourceOffset:
    """Return what `encode_offset` was given.

    A checkpoint that another source has written may hold any JSON.

    Raises:
        InvalidRequestError: It is not an offset.
        UnsupportedFormatError: A newer shardlog wrote it.
    """
    try:
        identity = document.get(_IDENTITY)
        ends = {name: value for name, value in document.items() if name != _IDENTITY}
        identities = _identities(ends, identity)
        streams = {name: _stream_offset(ends[name], identities[name]) for name in ends}
        schema, text = (None, None) if identity is None else map(identity.get, _OF_SCHEMA)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        message = (
            f"{shortened(json.dumps(document))} is no offset of this source; where another source "
            "has written a checkpoint, give the query one of its own"
        )
        raise InvalidRequestError(message) from error
    return SourceOffset(streams, schema, text)


def batch_ranges(
    start: StreamOffset | None, end: StreamOffset
) -> dict[int, tuple[int | None, int]]:
    """Return what a batch reads of each shard as (begin, end); begin None where neither says.

    Whatever the start is, the same end after a start without a birth, or without the stream, gives
    the same ranges.
    """
    birth = end.birth or {}
    begins: Mapping[int, int] = {} if start is None else start.ends
    if start is not None and start.birth is None and end.birth is not None:
        begins = {}
    return {shard: (begins.get(shard, birth.get(shard)), stop) for shard, stop in end.ends.items()}


def _identity(offset: StreamOffset) -> dict[str, Any]:
    identity: dict[str, Any] = {
        "incarnation": offset.incarnation,
        "lineage": _by_number(offset.lineages or {}),
    }
    if offset.birth is not None:
        identity["birth"] = _by_number(offset.birth)
    expired = {shard: generation for shard, generation in offset.expired.items() if generation}
    if expired:
        identity["expired"] = _by_number(expired)
    return identity


def _identities(ends: Mapping[str, Any], identity: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the identity of each stream beside its ends."""
    if identity is None:
        return dict.fromkeys(ends)
    version = identity.get("v")
    if version == _OF_ONE:
        (name,) = ends
        return {name: identity}
    if version != _OF_SEVERAL:
        message = f"the offset has version {version}; this shardlog reads 1 and {_OF_SEVERAL}"
        raise UnsupportedFormatError(message)
    streams: Mapping[str, Any] = identity["streams"]
    if set(streams) != set(ends):
        message = "its identity names other streams than its ends"
        raise ValueError(message)
    return streams


def _stream_offset(ends: Mapping[str, Any], identity: Mapping[str, Any] | None) -> StreamOffset:
    if identity is None:
        return StreamOffset(_numbers(ends))
    birth = identity.get("birth")
    return StreamOffset(
        _numbers(ends),
        str(identity["incarnation"]),
        {int(shard): str(lineage) for shard, lineage in identity["lineage"].items()},
        None if birth is None else _numbers(birth),
        _numbers(identity.get("expired", {})),
    )


def _by_number(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(shard): values[shard] for shard in sorted(values)}


def _numbers(document: Mapping[str, Any]) -> dict[int, int]:
    return {int(shard): int(value) for shard, value in document.items()}
