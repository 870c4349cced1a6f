"""Values of the log as JSON documents, each beside its inverse.

A field that is not known here, of a newer server, is left out; bytes are in hex. Values are of the
types that they are declared with, or a document is refused: TypeError or ValueError.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin, decode_origin, encode_origin
from storage_core.catalog.stream_meta import decode_known_options, encode_options
from storage_core.format.counters import ClearedDeadLetters, Counters, IndexCounts, StreamStats
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.part_entry import PartEntry
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange, Tail
from storage_core.parts.snapshot import Part
from storage_core.read.shard_reader import ShardFacts

T = TypeVar("T")
Pair = tuple[int, int]

_STATE_RANGES = ("lost", "gaps", "passed")
_DIGESTS = ("digest", "footer_digest")


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What a stream is, as its files say when a server is asked.

    Attributes:
        name: Its name.
        incarnation: The random id made with it, in hex.
        options: The options in force.
        origin: What it is a copy of; None if its rows come from callers.
        lineages: The random id of each shard's log, in hex.
        births: The first address that each shard can ever have had.
        committed: Each shard's committed.
        archived: The lineages of logs that were replaced, in hex.
    """

    name: str
    incarnation: str
    options: StreamOptions
    origin: StreamOrigin | None
    lineages: Mapping[int, str]
    births: Mapping[int, int]
    committed: Mapping[int, int]
    archived: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShardExtent:
    """What of a shard lies in one root, and who holds it there.

    Attributes:
        born: The first address that it can ever have had there.
        start: The first address that it still has or will have.
        committed: The exclusive end of its rows.
        floor: The least primary that has not expired.
        holder: The process that writes it, as messages name it; None while none does.
    """

    born: int
    start: int
    committed: int
    floor: int
    holder: str | None


def encode_extents(extents: Mapping[int, ShardExtent]) -> dict[str, Any]:
    """Return what of shards lies in a root as a document."""
    return {str(shard): asdict(extent) for shard, extent in extents.items()}


def decode_extents(document: Mapping[str, Any]) -> dict[int, ShardExtent]:
    """Return what `encode_extents` was given."""
    return {
        int(shard): ShardExtent(**_fields_of(ShardExtent, extent))
        for shard, extent in document.items()
    }


def encode_facts(facts: StreamFacts) -> dict[str, Any]:
    """Return what a stream is as a document."""
    return {
        "name": facts.name,
        "incarnation": facts.incarnation,
        "options": encode_options(facts.options),
        "origin": encode_origin(facts.origin),
        "lineages": encode_by_shard(facts.lineages),
        "births": encode_by_shard(facts.births),
        "committed": encode_by_shard(facts.committed),
        "archived": sorted(facts.archived),
    }


def decode_facts(document: Mapping[str, Any]) -> StreamFacts:
    """Return what `encode_facts` was given."""
    return StreamFacts(
        str(document["name"]),
        str(document["incarnation"]),
        decode_known_options(document["options"]),
        decode_origin(document["origin"]),
        {int(shard): bytes.fromhex(text).hex() for shard, text in document["lineages"].items()},
        decode_by_shard(document["births"]),
        decode_by_shard(document["committed"]),
        frozenset(map(str, document["archived"])),
    )


def encode_by_shard(values: Mapping[int, T]) -> dict[str, T]:
    """Return values by the numbers of shards; JSON's names are texts."""
    return {str(shard): value for shard, value in values.items()}


def decode_by_shard(document: Mapping[str, Any]) -> dict[int, int]:
    """Return the numbers that `encode_by_shard` was given."""
    return {int(shard): decode_number(value) for shard, value in document.items()}


def decode_number(value: object) -> int:
    """Return a number of 64 bits."""
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        message = f"{value!r} is no number"
        raise TypeError(message)
    return value


def decode_numbers(document: Iterable[object]) -> tuple[int, ...]:
    """Return numbers."""
    return tuple(map(decode_number, document))


def decode_pairs(document: Iterable[Iterable[int]]) -> list[Pair]:
    """Return ranges of addresses, which JSON has as lists of two."""
    return [(decode_number(start), decode_number(end)) for start, end in document]


def decode_pairs_by_shard(document: Mapping[str, Any]) -> dict[int, list[Pair]]:
    """Return the ranges of each shard."""
    return {int(shard): decode_pairs(ranges) for shard, ranges in document.items()}


def encode_schemas(entries: Iterable[SchemaEntry]) -> list[dict[str, Any]]:
    """Return schemas as a document."""
    return [{**asdict(entry), "fingerprint": entry.fingerprint.hex()} for entry in entries]


def decode_schemas(document: Iterable[Mapping[str, Any]]) -> list[SchemaEntry]:
    """Return what `encode_schemas` was given."""
    return [
        SchemaEntry(entry["registry_id"], bytes.fromhex(entry["fingerprint"]), entry["text"])
        for entry in document
    ]


def decode_stats(document: Mapping[str, Any]) -> StreamStats:
    """Return counters, which JSON has by their names."""
    return StreamStats(**_fields_of(StreamStats, document))


def encode_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return parts as a document."""
    return [
        {
            **asdict(part.entry),
            **{name: getattr(part.entry, name).hex() for name in _DIGESTS},
            "shard": part.shard,
            "path": str(part.path),
        }
        for part in parts
    ]


def decode_parts(document: Iterable[Mapping[str, Any]]) -> list[Part]:
    """Return what `encode_parts` was given."""
    parts = []
    for part in document:
        digests = {name: bytes.fromhex(part[name]) for name in _DIGESTS}
        entry = PartEntry(**{**_fields_of(PartEntry, part), **digests})
        parts.append(Part(int(part["shard"]), Path(part["path"]), entry))
    return parts


def encode_state(facts: ShardFacts) -> dict[str, Any]:
    """Return what a shard reports of itself as a document, without what its transactions were."""
    document = {
        field.name: getattr(facts, field.name) for field in fields(facts) if field.name != "ledger"
    }
    tail = facts.tail
    document["tail"] = [tail.next, tail.blocks_end, list(tail.counters)]
    document["lineage"] = None if facts.lineage is None else facts.lineage.hex()
    for name in _STATE_RANGES:
        document[name] = [[one.start, one.end] for one in getattr(facts, name)]
    return document


def decode_state(document: Mapping[str, Any]) -> ShardFacts:
    """Return what `encode_state` was given; `ledger` is None."""
    values = _fields_of(ShardFacts, document)
    next_, blocks_end, counters = values["tail"]
    values["tail"] = Tail(next_, blocks_end, Counters(*counters[: len(Counters._fields)]))
    values["index"] = IndexCounts(*values["index"][: len(IndexCounts._fields)])
    values["cleared"] = ClearedDeadLetters(*values["cleared"][: len(ClearedDeadLetters._fields)])
    lineage = values["lineage"]
    values["lineage"] = None if lineage is None else bytes.fromhex(lineage)
    for name in _STATE_RANGES:
        values[name] = tuple(AddressRange(*pair) for pair in values[name])
    return ShardFacts(**values, ledger=None)


def _fields_of(kind: Any, document: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    hints = _hints_of(kind)
    known_fields = {name: value for name, value in document.items() if name in hints}
    for name, value in known_fields.items():
        if hints[name] is int:
            decode_number(value)
        elif hints[name] in (bool, str) and not isinstance(value, hints[name]):
            message = f"{name}: {value!r} is no {hints[name].__name__}"
            raise TypeError(message)
    return known_fields


@cache
def _hints_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}
