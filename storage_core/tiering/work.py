"""Work on parts, and what came of it: values that one process can hand to another.

Orders and answers are lines of JSON; entries of parts go as the part list has them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from storage_core import errors
from storage_core.errors import ShardlogError
from storage_core.format.part_entry import PartEntry, decode_part, encode_part, part_key
from storage_core.read.view import ShardView
from storage_core.write.opened import ShardContext

_PLACE: Final = ("stream", "shard", "path", "start", "end")


@dataclass(frozen=True, slots=True)
class SealWork:
    """Rows by address that become parts.

    Attributes:
        begin: The first address.
        end: The exclusive end; less is done where it would be too much for one step.
        generation: Of the shard; what has expired since is gone.
        number: Of the first part that is built; the others have those behind it.
        now_ms: When that is.
    """

    begin: int
    end: int
    generation: int
    number: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class CompactWork:
    """Parts whose rows become one part.

    Attributes:
        parts: Neighbours of one level and value schema.
        number: Of the part that is built.
        now_ms: When that is.
    """

    parts: tuple[PartEntry, ...]
    number: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class RebuildWork:
    """A damaged part whose rows the log has.

    Attributes:
        part: It.
        number: Of the part that is built in its place.
        now_ms: When that is.
    """

    part: PartEntry
    number: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class ProveWork:
    """Blocks that parts are to replace.

    Attributes:
        begin: The first address.
        end: The exclusive end; a block ends there.
        rows: How many rows the blocks have.
        catalogue: The sum that proves the part list whole.
    """

    begin: int
    end: int
    rows: int
    catalogue: int


@dataclass(frozen=True, slots=True)
class Built:
    """Parts whose files are durable and proven; no part list has them yet.

    Attributes:
        parts: Their entries; none where blocks were only to be proven.
        end: The exclusive end of the addresses that were sealed, or proven.
    """

    parts: tuple[PartEntry, ...]
    end: int = 0


BuildWork = SealWork | CompactWork | RebuildWork
Work = BuildWork | ProveWork
# Builds or proves the files of parts; the view has what they are built of.
Builder = Callable[[ShardContext, ShardView, Work], Built]
_WORKS: Final = {work.__name__: work for work in (SealWork, CompactWork, RebuildWork, ProveWork)}


@dataclass(frozen=True, slots=True)
class Order:
    """Work on a shard, for whoever opens it by name.

    Attributes:
        root: The directory that holds the streams.
        stream: The stream's name.
        shard: The shard's number.
        work: What is to be built.
    """

    root: Path
    stream: str
    shard: int
    work: Work


def encode_order(order: Order) -> bytes:
    """Return the line of an order."""
    work = {field.name: getattr(order.work, field.name) for field in fields(order.work)}
    if isinstance(order.work, CompactWork):
        work["parts"] = _encode_parts(order.work.parts)
    elif isinstance(order.work, RebuildWork):
        work["part"] = _encode_parts([order.work.part])
    place = [str(order.root), order.stream, order.shard]
    return _line({"place": place, "work": type(order.work).__name__, "fields": work})


def decode_order(line: bytes) -> Order:
    """Return what `encode_order` was given."""
    order = json.loads(line)
    root, stream, shard = order["place"]
    work = order["fields"]
    if "parts" in work:
        work["parts"] = _decode_parts(work["parts"])
    elif "part" in work:
        (work["part"],) = _decode_parts(work["part"])
    return Order(Path(root), stream, shard, _WORKS[order["work"]](**work))


def encode_built(built: Built) -> bytes:
    """Return the line that answers an order."""
    return _line({"parts": _encode_parts(built.parts), "end": built.end})


def encode_failure(error: ShardlogError) -> bytes:
    """Return the line that answers an order which could not be done."""
    place = {name: getattr(error, name) for name in _PLACE}
    place["path"] = None if error.path is None else str(error.path)
    return _line({"failed": type(error).__name__, "message": error.message, "place": place})


def decode_built(line: bytes) -> Built:
    """Return what was built.

    Raises:
        ShardlogError: What went wrong there, of the same kind, with its place.
    """
    answer = json.loads(line)
    if "failed" in answer:
        place = answer["place"]
        place["path"] = None if place["path"] is None else Path(place["path"])
        raise getattr(errors, answer["failed"])(answer["message"], **place)
    return Built(_decode_parts(answer["parts"]), answer["end"])


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _encode_parts(parts: Sequence[PartEntry]) -> list[list[str]]:
    return [[part_key(part.first, part.number).hex(), encode_part(part).hex()] for part in parts]


def _decode_parts(encoded: Sequence[Sequence[str]]) -> tuple[PartEntry, ...]:
    return tuple(decode_part(bytes.fromhex(key), bytes.fromhex(entry)) for key, entry in encoded)
