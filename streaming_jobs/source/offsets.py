"""The offset of a query: how far each shard was read, of which stream exactly, and since where.

    {"<stream>": {"0": n, …},
     "@": {"v": 1, "incarnation": …, "lineage": {"0": …}, "birth": {"0": n},
           "expired": {"0": g}, "schema": null}}

Without `@` it is as Kafka's source has it, and a user may write it so. Spark keeps the text
verbatim and compares texts, so equal offsets are always written alike: shards by number.

`birth` is where the query began. `initialOffset` has none; the first `latestOffset` copies its
start there, and every later one carries it on. Spark asks for the initial offset again before
batch 0 is committed, each time the log may have grown; the range of a batch whose start has no
birth begins at its end's birth, so that no answer but the first counts.

`expired` is each shard's generation at that time, where the query began with what was there: what
had expired by then is no loss. It goes the way of `birth`; an offset without it owes every row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storage_core import InvalidRequestError, UnsupportedFormatError

_IDENTITY: Final = "@"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """How far a query has come.

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


def encode_offset(stream: str, offset: SourceOffset) -> dict[str, Any]:
    """Return an offset as Spark keeps it."""
    identity: dict[str, Any] = {
        "v": _VERSION,
        "incarnation": offset.incarnation,
        "lineage": _by_number(offset.lineages or {}),
    }
    if offset.birth is not None:
        identity["birth"] = _by_number(offset.birth)
    expired = {shard: generation for shard, generation in offset.expired.items() if generation}
    if expired:
        identity["expired"] = _by_number(expired)
    identity["schema"] = None
    return {**encode_ends(stream, offset.ends), _IDENTITY: identity}


def encode_ends(stream: str, ends: Mapping[int, int]) -> dict[str, Any]:
    """Return offsets alone, as Kafka's source writes them."""
    return {stream: _by_number(ends)}


def decode_offset(stream: str, document: Mapping[str, Any]) -> SourceOffset:
    """Return what `encode_offset` was given.

    Raises:
        InvalidRequestError: It is not an offset, or one of another stream.
        UnsupportedFormatError: A newer shardlog wrote it.
    """
    identity = document.get(_IDENTITY)
    named = [name for name in document if name != _IDENTITY]
    if named != [stream]:
        message = (
            f"the checkpoint tells of {named}, not of stream {stream!r}; "
            "a query on another stream needs a checkpoint of its own"
        )
        raise InvalidRequestError(message)
    if identity is not None and identity.get("v") != _VERSION:
        version = identity.get("v")
        message = f"the offset has version {version}; this shardlog reads {_VERSION}"
        raise UnsupportedFormatError(message, stream=stream)
    try:
        ends = _numbers(document[stream])
        if identity is None:
            return SourceOffset(ends)
        birth = identity.get("birth")
        return SourceOffset(
            ends,
            str(identity["incarnation"]),
            {int(shard): str(lineage) for shard, lineage in identity["lineage"].items()},
            None if birth is None else _numbers(birth),
            _numbers(identity.get("expired", {})),
        )
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        message = f"not an offset of this source: {document}"
        raise InvalidRequestError(message) from error


def batch_ranges(start: SourceOffset, end: SourceOffset) -> dict[int, tuple[int | None, int]]:
    """Return what a batch reads of each shard as (begin, end); begin None where neither says.

    Whatever the start is, the same end after a start without a birth gives the same ranges.
    """
    birth = end.birth or {}
    begins: Mapping[int, int] = start.ends
    if start.birth is None and end.birth is not None:
        begins = {}
    return {shard: (begins.get(shard, birth.get(shard)), stop) for shard, stop in end.ends.items()}


def _by_number(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(shard): values[shard] for shard in sorted(values)}


def _numbers(document: Mapping[str, Any]) -> dict[int, int]:
    return {int(shard): int(value) for shard, value in document.items()}
