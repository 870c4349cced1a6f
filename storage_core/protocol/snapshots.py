"""A snapshot of a stream's parts as a JSON document, for SQL that runs at the client."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.parts.snapshot import Part
from storage_core.protocol.documents import (
    decode_number,
    decode_pairs,
    decode_parts,
    encode_parts,
)


@dataclass(frozen=True, slots=True)
class ServedGroup:
    """Parts with one schema.

    Attributes:
        schema: Their columns.
        has_hidden: Whether some of their rows may be hidden.
        parts: The shard and the number of each.
    """

    schema: pa.Schema
    has_hidden: bool
    parts: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ServedSnapshot:
    """The parts of a stream at one moment, and where its rows end.

    Attributes:
        ends: The exclusive end of the rows of each shard.
        shards: The parts of each shard, with what hides rows.
        parts: The same parts, with their paths on the server.
        groups: The same parts by schema.
    """

    ends: Mapping[int, int]
    shards: Mapping[int, ShardParts]
    parts: Sequence[Part]
    groups: Sequence[ServedGroup]


def encode_snapshot(snapshot: ServedSnapshot) -> dict[str, Any]:
    """Return a snapshot as a document."""
    return {
        "shards": {
            str(shard): {
                "end": snapshot.ends[shard],
                "sealed": parts.sealed,
                "floor": parts.floor,
                "cut": parts.cut,
                "gaps": [[gap.start, gap.end] for gap in parts.gaps],
            }
            for shard, parts in snapshot.shards.items()
        },
        "parts": encode_parts(snapshot.parts),
        "groups": [
            {
                "schema": b64encode(group.schema.serialize()).decode(),
                "has_hidden": group.has_hidden,
                "parts": [list(part) for part in group.parts],
            }
            for group in snapshot.groups
        ],
    }


def decode_snapshot(document: Mapping[str, Any]) -> ServedSnapshot:
    """Return what `encode_snapshot` was given.

    Raises:
        ValueError: A part is in no group, or in several: its rows would be missing, or be twice.
    """
    parts = decode_parts(document["parts"])
    shards = {int(shard): of_shard for shard, of_shard in document["shards"].items()}
    groups = [
        ServedGroup(
            pa.ipc.read_schema(pa.py_buffer(b64decode(group["schema"]))),
            bool(group["has_hidden"]),
            decode_pairs(group["parts"]),
        )
        for group in document["groups"]
    ]
    places = sorted((part.shard, part.entry.number) for part in parts)
    grouped = sorted(place for group in groups for place in group.parts)
    if places != grouped or not shards.keys() >= {shard for shard, _ in places}:
        message = "its groups have other parts than there are"
        raise ValueError(message)
    return ServedSnapshot(
        {shard: decode_number(of_shard["end"]) for shard, of_shard in shards.items()},
        {
            shard: ShardParts(
                decode_number(of_shard["sealed"]),
                tuple(part.entry for part in parts if part.shard == shard),
                decode_number(of_shard["floor"]),
                decode_number(of_shard["cut"]),
                tuple(AddressRange(*gap) for gap in decode_pairs(of_shard["gaps"])),
            )
            for shard, of_shard in shards.items()
        },
        parts,
        groups,
    )
