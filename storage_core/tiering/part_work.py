"""What is to be made of a shard's rows, and what was: values that a process can hand to another.

Orders and answers are lines of JSON; entries of parts go as the catalogue has them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from storage_core import errors
from storage_core.errors import ShardlogError
from storage_core.format.part_entry import PartEntry, decode_part, encode_part, part_key
from storage_core.read.view import ShardView
from storage_core.write.opened_shard import ShardContext

_PLACE: Final = ("stream", "shard", "path", "start", "end")


@dataclass(frozen=True, slots=True)
class SealWork:
    """Rows by address that become parts.

    Attributes:
        begin: The first address.
        end: The exclusive end; less is done where it would be too much for one step.
        generation: Of the shard; what has expired since is gone.
        number: Of the first part that is made; the others have those behind it.
        now_ms: When that is.
    """

    begin: int
    end: int
    generation: int
    number: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class JoinWork:
    """Parts whose rows become one part.

    Attributes:
        group: Neighbours of one level, kind and flag.
        number: Of the part that is made.
        now_ms: When that is.
    """

    group: tuple[PartEntry, ...]
    number: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class ProveWork:
    """Blocks that parts are to stand for.

    Attributes:
        begin: The first address.
        end: The exclusive end; a block ends there.
        rows: How many rows the blocks have.
        catalogue: What proves the entries of the parts whole.
    """

    begin: int
    end: int
    rows: int
    catalogue: int


@dataclass(frozen=True, slots=True)
class Made:
    """Parts whose files are durable, proven, and in no catalogue yet.

    Attributes:
        parts: Their entries; none where blocks were only to be proven.
        end: The exclusive end of the addresses that were sealed, or proven.
    """

    parts: tuple[PartEntry, ...]
    end: int = 0


MakeWork = SealWork | JoinWork
Work = MakeWork | ProveWork
# Makes or proves the files of parts; the view shows what they are made of.
Maker = Callable[[ShardContext, ShardView, Work], Made]


@dataclass(frozen=True, slots=True)
class Order:
    """Work on a shard, for whoever opens it by name.

    Attributes:
        root: The directory that holds the streams.
        stream: The stream's name.
        shard: The shard's number.
        work: What is to be made.
    """

    root: Path
    stream: str
    shard: int
    work: Work


def encode_order(order: Order) -> bytes:
    """Return the line of an order."""
    work = order.work
    told: dict[str, Any] = {
        "root": str(order.root),
        "stream": order.stream,
        "shard": order.shard,
    }
    if isinstance(work, JoinWork):
        told |= {"group": _texts(work.group), "number": work.number, "now_ms": work.now_ms}
    else:
        told |= asdict(work)
    return _line(told)


def decode_order(line: bytes) -> Order:
    """Return what `encode_order` was given."""
    told = json.loads(line)
    place = Path(told.pop("root")), told.pop("stream"), told.pop("shard")
    work: Work
    if "group" in told:
        work = JoinWork(**{**told, "group": _entries(told["group"])})
    else:
        work = ProveWork(**told) if "rows" in told else SealWork(**told)
    return Order(*place, work)


def encode_made(made: Made) -> bytes:
    """Return the line that answers an order."""
    return _line({"parts": _texts(made.parts), "end": made.end})


def encode_failed(error: ShardlogError) -> bytes:
    """Return the line that answers an order which could not be done."""
    place = {name: getattr(error, name) for name in _PLACE}
    place["path"] = None if error.path is None else str(error.path)
    return _line({"failed": type(error).__name__, "message": error.message, "place": place})


def decode_made(line: bytes) -> Made:
    """Return what was made.

    Raises:
        ShardlogError: What went wrong there, of the same kind, with its place.
    """
    told = json.loads(line)
    if "failed" in told:
        place = told["place"]
        place["path"] = None if place["path"] is None else Path(place["path"])
        raise getattr(errors, told["failed"])(told["message"], **place)
    return Made(_entries(told["parts"]), told["end"])


def _line(told: dict[str, Any]) -> bytes:
    return json.dumps(told).encode() + b"\n"


def _texts(parts: Sequence[PartEntry]) -> list[list[str]]:
    return [[part_key(one.first, one.number).hex(), encode_part(one).hex()] for one in parts]


def _entries(texts: Sequence[Sequence[str]]) -> tuple[PartEntry, ...]:
    return tuple(decode_part(bytes.fromhex(key), bytes.fromhex(entry)) for key, entry in texts)
