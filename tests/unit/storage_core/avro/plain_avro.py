"""Avro in plain Python, a value at a time: random schemas, bodies of them, and what is shown.

`written` and `read` know nothing of the product or of each other's mistakes: what `written` makes
is held to fastavro in the tests, and `read` is held to `written`.
"""

import struct
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

import numpy as np

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
EMPTY_ITEMS_MAX = 256
ITEMS_MAX = 2**20
NESTING_MAX = 3
LETTERS = "aé漢x😀 "

Schema = Any
Value = Any


class CorruptError(Exception):
    """A body that its schema cannot have written."""


def random_record(chance: Random) -> Schema:
    """Return a schema of some columns, each of any type."""
    names = (f"T{number}" for number in count())
    fields = [
        {"name": f"c{index}", "type": _random_type(chance, 0, names)}
        for index in range(chance.randint(1, 6))
    ]
    return {"type": "record", "name": "Root", "fields": fields}


def _random_type(chance: Random, nesting: int, names: Iterator[str]) -> Schema:  # noqa: PLR0911 - one way a type
    kinds = [*PRIMITIVES * 2, "fixed", "enum"]
    if nesting < NESTING_MAX:
        kinds += ["array", "map", "record", "union", "union"]
    kind = chance.choice(kinds)
    if kind in PRIMITIVES:
        return kind
    if kind == "array":
        return {"type": kind, "items": _random_type(chance, nesting + 1, names)}
    if kind == "map":
        return {"type": kind, "values": _random_type(chance, nesting + 1, names)}
    if kind == "fixed":
        return {"type": kind, "name": next(names), "size": chance.randint(0, 20)}
    if kind == "enum":
        symbols = [f"S{index}" for index in range(chance.randint(1, 5))]
        return {"type": kind, "name": next(names), "symbols": symbols}
    if kind == "record":
        fields = [
            {"name": f"f{index}", "type": _random_type(chance, nesting + 1, names)}
            for index in range(chance.randint(0, 4))
        ]
        return {"type": kind, "name": next(names), "fields": fields}
    branches: dict[str, Schema] = {}
    for _ in range(chance.randint(1, 4)):
        element = _random_type(chance, nesting + 1, names)
        if not isinstance(element, list):
            branches.setdefault(_branch_name(element), element)
    return list(branches.values()) or ["null"]


def _branch_name(element: Schema) -> str:
    if isinstance(element, str):
        return element
    return str(element.get("name", element["type"]))


def kind_of(schema: Schema) -> str:
    """Return a type's kind; a list is a union."""
    if isinstance(schema, list):
        return "union"
    return str(schema if isinstance(schema, str) else schema["type"])


def random_value(chance: Random, schema: Schema) -> Value:  # noqa: PLR0911 - one way a type
    """Return a value of a type; that of a union is (branch, value)."""
    kind = kind_of(schema)
    if kind == "union":
        branch = chance.randrange(len(schema))
        return branch, random_value(chance, schema[branch])
    if kind == "array":
        return [
            random_value(chance, schema["items"]) for _ in range(chance.choice([0, 0, 1, 2, 5, 40]))
        ]
    if kind == "map":
        some = range(chance.choice([0, 1, 3]))
        return [(f"k{index}", random_value(chance, schema["values"])) for index in some]
    if kind == "record":
        return {field["name"]: random_value(chance, field["type"]) for field in schema["fields"]}
    if kind == "enum":
        return chance.choice(schema["symbols"])
    if kind == "fixed":
        return chance.randbytes(schema["size"])
    return _random_primitive(chance, kind)


def _random_primitive(chance: Random, kind: str) -> Value:
    if kind in ("int", "long"):
        most = 2**31 if kind == "int" else 2**63
        edges = [0, -1, 1, most - 1, -most, chance.randint(-100, 100)]
        return chance.choice([*edges, chance.randint(-most, most - 1)])
    if kind in ("float", "double"):
        value = chance.uniform(-1e6, 1e6)
        return float(np.float32(value)) if kind == "float" else value
    size = chance.choice([0, 1, 5, 70])
    return {
        "null": None,
        "boolean": chance.random() < 0.5,
        "bytes": chance.randbytes(size),
        "string": "".join(chance.choice(LETTERS) for _ in range(size)),
    }[kind]


def _written_long(number: int) -> bytes:
    left = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def written(schema: Schema, value: Value, chance: Random) -> bytes:
    """Return a value's body; arrays and maps in blocks of any number, with sizes or without."""
    kind = kind_of(schema)
    if kind == "union":
        return _written_long(value[0]) + written(schema[value[0]], value[1], chance)
    if kind == "record":
        parts = (written(field["type"], value[field["name"]], chance) for field in schema["fields"])
        return b"".join(parts)
    if kind == "enum":
        return _written_long(schema["symbols"].index(value))
    if kind == "array":
        return _written_blocks(
            [written(schema["items"], element, chance) for element in value], chance
        )
    if kind == "map":
        entries = (
            (written("string", name, chance), written(schema["values"], element, chance))
            for name, element in value
        )
        return _written_blocks([name + element for name, element in entries], chance)
    return _written_primitive(kind, value)


def _written_primitive(kind: str, value: Value) -> bytes:
    if kind in ("int", "long"):
        return _written_long(value)
    if kind in ("bytes", "string"):
        raw: bytes = value if kind == "bytes" else value.encode()
        return _written_long(len(raw)) + raw
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    if kind == "boolean":
        return bytes([value])
    return b"" if kind == "null" else bytes(value)


def _written_blocks(items: list[bytes], chance: Random) -> bytes:
    out = b""
    while items:
        some = chance.randint(1, len(items))
        block, items = b"".join(items[:some]), items[some:]
        if chance.random() < 0.5:
            out += _written_long(some) + block
        else:
            out += _written_long(-some) + _written_long(len(block)) + block
    return out + b"\0"


def flat(schema: Schema, value: Value) -> Value:
    """Return a value as fastavro has it."""
    kind = kind_of(schema)
    if kind == "union":
        return flat(schema[value[0]], value[1])
    if kind == "record":
        return {
            field["name"]: flat(field["type"], value[field["name"]]) for field in schema["fields"]
        }
    if kind == "array":
        return [flat(schema["items"], element) for element in value]
    if kind == "map":
        return {name: flat(schema["values"], element) for name, element in value}
    return value


def decoded_value(schema: Schema, value: Value) -> Value:
    """Return a value as Arrow's `to_pylist` has it."""
    kind = kind_of(schema)
    if kind == "union":
        return _decoded_union(schema, *value)
    if kind == "record":
        return {
            field["name"]: decoded_value(field["type"], value[field["name"]])
            for field in schema["fields"]
        }
    if kind == "array":
        return [decoded_value(schema["items"], element) for element in value]
    if kind == "map":
        return [(name, decoded_value(schema["values"], element)) for name, element in value]
    return value


def _decoded_union(schema: Schema, branch: int, value: Value) -> Value:
    chosen = schema[branch]
    others = [element for element in schema if element != "null"]
    if chosen == "null":
        return None
    out = decoded_value(chosen, value)
    if len(others) == 1 or {str(element) for element in others} in (
        {"int", "long"},
        {"float", "double"},
    ):
        return out
    return {
        f"member{index}": out if element is chosen else None for index, element in enumerate(others)
    }


def harmed(body: bytes, chance: Random) -> bytes:
    """Return a body with a bit turned, cut short, with bytes behind, or with some replaced."""
    out, way = bytearray(body), chance.randrange(4)
    if way == 0 and out:
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    elif way == 1:
        del out[chance.randrange(len(out) + 1) :]
    elif way == 2:
        out += chance.randbytes(chance.randint(1, 4))
    elif out:
        index = chance.randrange(len(out))
        out[index : index + chance.randint(1, 9)] = chance.randbytes(chance.randint(1, 9))
    return bytes(out)


def read(schema: Schema, body: bytes) -> Value:
    """Return a body's value.

    Raises:
        CorruptError: The schema cannot have written it.
    """
    reading = _Reading(body)
    value = reading.value(schema)
    if reading.place != len(body):
        raise CorruptError
    return value


class _Reading:
    def __init__(self, body: bytes) -> None:
        self.body, self.place = body, 0
        self.items_left = min(ITEMS_MAX, len(body) + EMPTY_ITEMS_MAX)

    def value(self, schema: Schema) -> Value:  # noqa: PLR0911 - one way a type
        kind = kind_of(schema)
        if kind == "union":
            branch = self.below(len(schema))
            return branch, self.value(schema[branch])
        if kind == "record":
            return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        if kind == "enum":
            return schema["symbols"][self.below(len(schema["symbols"]))]
        if kind == "fixed":
            return self.bytes(schema["size"])
        if kind == "array":
            return [self.value(schema["items"]) for _ in self.items()]
        if kind == "map":
            field = ((self.value("string"), schema["values"]) for _ in self.items())
            return [(name, self.value(of)) for name, of in field]
        return self.primitive(kind)

    def primitive(self, kind: str) -> Value:
        if kind in ("int", "long"):
            number = self.long()
            if kind == "int" and not -(2**31) <= number < 2**31:
                raise CorruptError
            return number
        if kind in ("float", "double"):
            form = "<f" if kind == "float" else "<d"
            return struct.unpack(form, self.bytes(struct.calcsize(form)))[0]
        if kind == "boolean":
            byte = self.bytes(1)[0]
            if byte > 1:
                raise CorruptError
            return byte == 1
        if kind == "null":
            return None
        raw = self.bytes(self.long())
        try:
            return raw if kind == "bytes" else raw.decode()
        except UnicodeDecodeError as error:
            raise CorruptError from error

    def items(self) -> Iterator[None]:
        while some := self.long():
            if some < 0:
                some = -some
                if self.long() < 0:
                    raise CorruptError
            self.items_left -= some
            if self.items_left < 0:
                raise CorruptError
            for _ in range(some):
                yield

    def below(self, most: int) -> int:
        number = self.long()
        if not 0 <= number < most:
            raise CorruptError
        return number

    def bytes(self, size: int) -> bytes:
        if size < 0 or self.place + size > len(self.body):
            raise CorruptError
        self.place += size
        return self.body[self.place - size : self.place]

    def long(self) -> int:
        number = 0
        for index in range(10):
            byte = self.bytes(1)[0]
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        else:
            raise CorruptError
        if number >= 2**64:
            raise CorruptError
        return (number >> 1) ^ -(number & 1)
