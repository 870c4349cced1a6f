"""Columns of a random schema written by the product, held to fastavro and to the decoder."""

import io
import json
from dataclasses import dataclass
from random import Random
from typing import Any

import fastavro
import pyarrow as pa

from storage_core.avro import AvroSchema, decode_batch, encode_batch
from tests.unit.storage_core.avro.plain_avro import (
    Schema,
    Value,
    flat,
    kind_of,
    random_record,
    random_value,
)

DAY = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    ),
}
WIDTHS = ({"int", "long"}, {"float", "double"})


def check_against_fastavro(seed: int) -> int:
    """Write columns of one random schema; return how many bytes they took.

    Raises:
        AssertionError: Bodies are not fastavro's, or not read back as the columns they were.
    """
    chance = Random(seed)
    case = random_case(chance)
    own, bodies = case.schema, case.bodies
    start = chance.randint(0, len(bodies))
    table = decode_batch(pa.array(bodies, pa.binary()), own).table.combine_chunks().slice(start)
    made = encode_batch(table, own)
    made.validate(full=True)
    if not case.has_widths:
        assert made.to_pylist() == bodies[start:], seed
    again = decode_batch(made, own)
    assert again.faults == (), seed
    assert again.table.equals(table), seed
    written: list[Any] = made.to_pylist()
    parsed = fastavro.parse_schema(case.plain)
    for body, value in zip(written, case.values[start:], strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(body), parsed)
        assert read == flat(case.plain, value), seed
    return sum(len(body) for body in written)


@dataclass(frozen=True)
class Case:
    """A random schema, and bodies of it that fastavro wrote and a reader takes.

    Attributes:
        schema: The schema.
        plain: The same without logical types.
        values: What was written.
        bodies: What of it was made.
        has_widths: Whether a union holds a number of two widths, of which the writer takes one.
    """

    schema: AvroSchema
    plain: Schema
    values: list[Value]
    bodies: list[bytes]
    has_widths: bool


def random_case(chance: Random) -> Case:
    """Return a random schema and bodies of it."""
    plain = random_record(chance)
    schema = with_logical_types(chance, plain)
    rows = chance.choice([0, 1, 3, 30, 100])
    values = [suited(chance, schema, random_value(chance, plain)) for _ in range(rows)]
    parsed = fastavro.parse_schema(plain)
    own = AvroSchema.parse(json.dumps(schema))
    bodies = [fastavro_body(parsed, fastavro_value(plain, value)) for value in values]
    faults = decode_batch(pa.array(bodies, pa.binary()), own).faults
    # Of arrays of nulls a body can have more than a reader takes.
    assert all("items, or more than its bytes can hold" in field.reason for field in faults)
    beyond = {field.row for field in faults}
    bodies = [field for index, field in enumerate(bodies) if index not in beyond]
    values = [field for index, field in enumerate(values) if index not in beyond]
    return Case(own, plain, values, bodies, has_widths(schema))


def fastavro_body(parsed: Schema, value: Value) -> bytes:
    """Return a value's body as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, value)
    return out.getvalue()


def fastavro_value(schema: Schema, value: Value) -> Any:
    """Return a value as fastavro takes it, each union's with its branch."""
    kind = kind_of(schema)
    if kind == "union":
        branch = schema[value[0]]
        name = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        return None if name == "null" else (name, fastavro_value(branch, value[1]))
    if kind == "array":
        return [fastavro_value(schema["items"], element) for element in value]
    if kind == "map":
        return {name: fastavro_value(schema["values"], element) for name, element in value}
    if kind == "record":
        return {
            field["name"]: fastavro_value(field["type"], value[field["name"]])
            for field in schema["fields"]
        }
    return value


def with_logical_types(chance: Random, schema: Schema) -> Schema:
    """Return a schema of which some types are logical ones."""
    if isinstance(schema, list):
        return [with_logical_types(chance, element) for element in schema]
    if isinstance(schema, str):
        return _logical(chance, schema)
    made = dict(schema)
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = with_logical_types(chance, made[inner])
    if "fields" in made:
        made["fields"] = [
            {**field, "type": with_logical_types(chance, field["type"])} for field in made["fields"]
        ]
    if made["type"] == "fixed" and made["size"] > 0 and chance.random() < 0.5:
        digits = len(str(2 ** (8 * made["size"] - 1) - 1)) - 1
        made |= {"logicalType": "decimal", "precision": digits, "scale": chance.randint(0, digits)}
    return made


def _logical(chance: Random, kind: str) -> Schema:
    if chance.random() < 0.5 and kind in LOGICAL:
        return {"type": kind, "logicalType": chance.choice(LOGICAL[kind])}
    if chance.random() < 0.5 and kind == "bytes":
        digits = chance.choice([1, 5, 18, 38, 39, 76])
        scale = chance.randint(0, digits)
        return {"type": kind, "logicalType": "decimal", "precision": digits, "scale": scale}
    return kind


def suited(chance: Random, schema: Schema, value: Value) -> Value:
    """Return a value in which times are of a day, and decimals of their digits."""
    kind = kind_of(schema)
    if kind == "union":
        return value[0], suited(chance, schema[value[0]], value[1])
    if kind == "array":
        return [suited(chance, schema["items"], element) for element in value]
    if kind == "map":
        return [(name, suited(chance, schema["values"], element)) for name, element in value]
    if kind == "record":
        return {
            field["name"]: suited(chance, field["type"], value[field["name"]])
            for field in schema["fields"]
        }
    return _of_a_logical_type(chance, schema, value) if isinstance(schema, dict) else value


def _of_a_logical_type(chance: Random, schema: Schema, value: Value) -> Value:
    logical = schema.get("logicalType")
    if logical in DAY:
        return value % DAY[logical]
    if logical != "decimal":
        return value
    most = 10 ** schema["precision"] - 1
    number = chance.choice([0, 1, -1, 127, -128, 128, most, -most, chance.randint(-most, most)])
    number = max(-most, min(most, number))
    return number.to_bytes(schema.get("size") or shortest(number), "big", signed=True)


def shortest(number: int) -> int:
    """Return how many bytes tell a number and its sign."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def has_widths(schema: Schema) -> bool:
    """Tell whether a union holds a number of two widths, of which the writer takes one."""
    if isinstance(schema, list):
        kinds = {element for element in schema if element != "null" and isinstance(element, str)}
        return kinds in WIDTHS or any(has_widths(element) for element in schema)
    if isinstance(schema, str):
        return False
    inner = [schema.get("items"), schema.get("values")]
    inner += [field["type"] for field in schema.get("fields", ())]
    return any(has_widths(element) for element in inner if element is not None)
