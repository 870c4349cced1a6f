"""The values of the ledger's topic: Avro by three versions of a schema, and some that are none.

    1  a number, bytes, a level
    2  a text that may be missing, and a record, are added
    3  the level is a text, which gets a column of its own in the table

What a value's columns are in the table is found here from its bytes, by another reader of Avro.
"""

import io
import json
import random
import struct
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from tests.broker.support.avro_lab import register, value_of
from tests.unit.connectors.framed import record_schema

# The columns of the table that have fields of values.
FIELDS: Final[dict[str, pa.DataType]] = {
    "number": pa.int64(),
    "noise": pa.binary(),
    "level": pa.int64(),
    "level_string": pa.string(),
    "hue": pa.string(),
    "place": pa.struct([("x", pa.int64())]),
}
_FIRST: Final = (("number", "long"), ("noise", "bytes"))
_ADDED: Final = (
    ("hue", ["null", "string"]),
    ("place", json.loads(record_schema(("x", "int"), name="Place"))),
)
_TEXTS: Final = (
    record_schema(*_FIRST, ("level", "int")),
    record_schema(*_FIRST, ("level", "int"), *_ADDED),
    record_schema(*_FIRST, ("level", "string"), *_ADDED),
)
# One value in so many is none, in turn in each of some ways.
_POISON: Final = 41
_UNKNOWN_ID: Final = 888_888_888
_FRAME: Final = struct.Struct(">BI")


class Values:
    """Values of one topic, whose schemas a registry has."""

    def __init__(self, registry: str, topic: str) -> None:
        ids = [register(registry, f"{topic}-{at}", text) for at, text in enumerate(_TEXTS)]
        self._ids: dict[int, str] = dict(zip(ids, _TEXTS, strict=True))

    def made(self, number: int, chance: random.Random) -> bytes:
        """Return the value of a record."""
        registry_id, text = list(self._ids.items())[number // 3 % len(self._ids)]
        is_text = text == _TEXTS[-1]
        fields: dict[str, Any] = {
            "number": number,
            "noise": chance.randbytes(20),
            "level": f"höher {number % 5}" if is_text else number % 5 - 2,
            "hue": None if number % 2 else "grün",
            "place": {"x": number % 1000},
        }
        value = value_of(registry_id, text, fields)
        return _poisoned(value, number // _POISON) if number % _POISON == 0 else value

    def columns_of(self, payload: bytes | None) -> dict[str, Any]:
        """Return what the columns of a row's value are, and what is left of its bytes."""
        if payload is None:
            return {}
        body = io.BytesIO(payload)
        _, registry_id = _FRAME.unpack(body.read(_FRAME.size))
        schema = parse_schema(json.loads(self._ids[registry_id]), _write_hint=False)
        fields: Any = schemaless_reader(body, schema, None)
        if isinstance(fields["level"], str):
            fields["level_string"] = fields.pop("level")
        return dict(fields)


def _poisoned(value: bytes, turn: int) -> bytes:
    """Return what is no value any more."""
    kinds = (
        value[:-2],
        b"\x07 no schema wrote this",
        _FRAME.pack(0, _UNKNOWN_ID) + value[_FRAME.size :],
        value + b"\0",
    )
    return kinds[turn % len(kinds)]
