"""Rows of Avro for tests of jobs: two versions of a schema, and values that none of them wrote."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from storage_core import SchemaEntry, Stream
from storage_core.avro import AvroSchema, encode_batch, frame_of

_FIELDS: list[Any] = [{"name": "heat", "type": "double"}, {"name": "place", "type": "string"}]
_LATER: Any = {"name": "wet", "type": ["null", "int"], "default": None}


def _schema(fields: list[Any]) -> AvroSchema:
    return AvroSchema.parse(json.dumps({"type": "record", "name": "Heat", "fields": fields}))


VERSIONS = (_schema([*_FIELDS]), _schema([*_FIELDS, _LATER]))
ENTRIES = tuple(
    SchemaEntry(7 + number, schema.identity, schema.text) for number, schema in enumerate(VERSIONS)
)
# A frame, and nothing of a body.
BROKEN = b"\x00\x00\x00\x00\x07\xff"


def append_heat(
    stream: Stream, rows: Sequence[tuple[int, int, float | None]], version: int, *, broken: int = 0
) -> None:
    """Append and commit (primary, secondary, heat) by a version; without heat a tombstone.

    The first `broken` values say nothing that a schema could read.
    """
    heat = [0.0 if payload is None else payload for _, _, payload in rows]
    places = [f"place {who}" for _, who, _ in rows]
    table = pa.table({"heat": heat, "place": places, "wet": pa.array([5] * len(rows), pa.int32())})
    schema = VERSIONS[version]
    names = [field.name for field in schema.fields]
    bodies = encode_batch(table.select(names), schema, frame=frame_of(schema, 7 + version))
    values = [
        None if payload is None else body
        for (_, _, payload), body in zip(rows, bodies.to_pylist(), strict=True)
    ]
    values[:broken] = [BROKEN] * broken
    columns: dict[str, Any] = {
        "primary": pa.array([primary for primary, _, _ in rows]),
        "secondary": pa.array([who for _, who, _ in rows], pa.int32()),
        "payload": pa.array(values, pa.binary()),
        "schema": pa.array([version] * len(rows), pa.int32()),
    }
    stream.append_batch(pa.RecordBatch.from_pydict(columns), schemas=ENTRIES)
    stream.commit()
