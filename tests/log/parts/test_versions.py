"""Goal: what a row's fields are depends on its own schema, and on no other row.

Method: values of several versions of a schema are appended. SQL is asked of them while they are not
sealed, sealed one by one, joined to one part, and trimmed: the answers are the same, and those
that the values were made of.
"""

import struct
from typing import Any

import pyarrow as pa
import pytest

from storage_core import SchemaEntry
from storage_core.avro import AvroSchema
from storage_core.sql import connect
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab, Row, schema_of

_OLD: Row = {"name": "old", "type": "int"}
_FIRST: list[Row] = [{"name": "stays", "type": "int"}, _OLD, {"name": "goes", "type": "string"}]
_SECOND: list[Row] = [
    {"name": "stays", "type": "long"},
    {"name": "new", "type": "int", "aliases": ["old"]},
    {"name": "more", "type": "int", "default": 7},
]
# What the first wrote cannot be read by it: there is no default.
_THIRD: list[Row] = [*_SECOND, {"name": "must", "type": "string"}]
VERSIONS: list[tuple[AvroSchema, Row]] = [
    (schema_of(_FIRST), {"stays": 1, "old": 2, "goes": "a"}),
    (schema_of(_SECOND), {"stays": 2**40, "new": 4, "more": 5}),
    (schema_of(_THIRD), {"stays": 6, "new": 7, "more": 8, "must": "b"}),
]
_TREE: list[Row] = [
    {"name": "size", "type": "int"},
    {"name": "next", "type": ["null", "Telemetry"], "default": None},
]


def _inner(*fields: Row) -> list[Row]:
    """Return a field of a record, one of a list of them, and one of a map."""
    record = {"type": "record", "name": "Inner", "fields": list(fields)}
    listed: Row = {"name": "listed", "type": {"type": "array", "items": "Inner"}}
    return [
        {"name": "one", "type": record},
        listed,
        {"name": "by", "type": {"type": "map", "values": "Inner"}},
    ]


_STAYS: Row = {"name": "stays", "type": "int"}
# Of records inside: what they have, and what is shown of it.
INSIDE: list[tuple[AvroSchema, Row]] = [
    (schema_of(_inner(_STAYS, {"name": "goes", "type": "string"})), {"stays": 1, "goes": "a"}),
    (
        schema_of(_inner({"name": "stays", "type": "long"}, _SECOND[2])),
        {"stays": 2**40, "more": 5},
    ),
    (schema_of(_inner({"name": "stays", "type": "string"})), {"stays": "b"}),
]


@pytest.fixture
def lab(root):
    lab = PartsLab(root)
    yield lab
    lab.stream.close()


def fields_shown(lab: PartsLab) -> list[Row]:
    """Return the fields that SQL shows of each row."""
    own = 'shard, secondary, "primary", time, version, state, schema_id'
    with connect(lab.root) as streams:
        query = f"SELECT * EXCLUDE ({own}) FROM {NAME} ORDER BY address"
        result = streams.sql(query).to_arrow_table().to_pylist()
    hidden = ("address", "payload")
    return [{n: v for n, v in row.items() if v is not None and n not in hidden} for row in result]


def appended(lab: PartsLab, times: int, *, is_sealed: bool) -> list[Row]:
    """Append a value of each version in turn; return them."""
    values = []
    for _ in range(times):
        for number, (schema, value) in enumerate(VERSIONS):
            lab.append_values(schema, [value], 40 + number)
            values.append(value)
            if is_sealed:
                lab.stream.seal()
    return values


def test_rows_of_all_versions_that_are_not_sealed_show_their_own_fields(lab):
    values = appended(lab, 2, is_sealed=False)
    assert fields_shown(lab) == values
    lab.stream.seal()
    assert fields_shown(lab) == values


def test_joining_parts_changes_no_answer(lab):
    values = appended(lab, 3, is_sealed=True)
    assert fields_shown(lab) == values
    before, rows = len(lab.stream.parts()), lab.rows()
    lab.stream.compact()
    assert len(lab.stream.parts()) < before
    assert fields_shown(lab) == values
    lab.stream.trim()
    assert lab.rows() == rows
    assert lab.stream.verify().problems == ()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_records_inside_show_the_fields_of_their_own_version(lab, is_sealed, count):
    values = []
    for _ in range(5):
        for number, (schema, value) in enumerate(INSIDE[:count]):
            row = {"one": value, "listed": [value, value], "by": [("k", value)]}
            lab.append_values(schema, [row], 50 + number)
            # Texts beside numbers make texts of all.
            visible = value if count < len(INSIDE) else value | {"stays": str(value["stays"])}
            values.append({"one": visible, "listed": [visible, visible], "by": [("k", visible)]})
            if is_sealed:
                lab.stream.seal()
    rows = lab.rows()
    assert _without_nulls(fields_shown(lab)) == values
    lab.stream.seal()
    lab.stream.compact()
    assert _without_nulls(fields_shown(lab)) == values
    lab.stream.trim()
    assert lab.rows() == rows
    assert lab.stream.verify().problems == ()


def _without_nulls(value: Any) -> Any:
    """Return a value without the fields that are null, at any depth."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, tuple):
        return value[0], _without_nulls(value[1])
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("is_sealed", [True, False])
def test_record_that_holds_itself_has_its_other_fields(lab, is_sealed):
    value = {"size": 3}
    lab.append_values(schema_of([_TREE[0]]), [value], 40)
    for _ in range(2):
        lab.append_bodies(schema_of(_TREE), [b"\x06\x00", b"\x06\x02\x08\x00"], 41)
        if is_sealed:
            lab.stream.seal()
    assert fields_shown(lab) == [value] * 5


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("kind", ["timestamp-millis", "local-timestamp-millis"])
def test_time_that_sql_cannot_count_is_in_its_payload_alone(lab, kind, is_sealed):
    time = {"type": "long", "logicalType": kind}
    inside = {"type": "record", "name": "At", "fields": [{"name": "at", "type": time}]}
    fields: list[Row] = [
        {"name": "at", "type": time},
        {"name": "deep", "type": {"type": "array", "items": inside}},
    ]
    far, near = b"\xfe" + b"\xff" * 8 + b"\x01", b"\x00"
    bodies = [near + b"\x02\x00\x00", far + b"\x00", near + b"\x04\x00" + far + b"\x00"]
    lab.append_bodies(schema_of(fields), bodies, 42)
    if is_sealed:
        lab.stream.seal()
    rows = lab.rows()
    visible = [sorted(row) for row in fields_shown(lab)]
    assert visible == [["at", "deep"], [], []]
    with connect(lab.root) as streams:
        query = f"SELECT payload IS NULL FROM {NAME} ORDER BY address"
        assert [one for (one,) in streams.sql(query).fetchall()] == [True, False, False]
    lab.stream.trim()
    assert lab.rows() == rows


@pytest.mark.parametrize("registry_id", [0, 43])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_body_without_a_frame_is_read_whole_though_it_begins_like_one(lab, is_sealed, registry_id):
    schema = schema_of([{"name": "level", "type": "double"}, {"name": "text", "type": "string"}])
    heads = [bytes(5), b"\x00\x00\x00\x00\x2a", b"\xc3\x01"]
    levels = [head.ljust(8, b"\x40") for head in heads]
    bodies = [level + b"\x08text" for level in levels]
    rows = {
        "primary": pa.array(range(FIRST_MS, FIRST_MS + len(bodies))),
        "secondary": pa.array([2] * len(bodies), pa.int32()),
        "payload": pa.array(bodies, pa.binary()),
        "schema": pa.array([0] * len(bodies), pa.int32()),
    }
    entry = SchemaEntry(registry_id, schema.identity, schema.text)
    lab.stream.append_batch(pa.table(rows), schemas=[entry])
    lab.stream.commit()
    if is_sealed:
        lab.stream.seal()
        lab.stream.trim()
    expected = [{"level": struct.unpack("<d", one)[0], "text": "text"} for one in levels]
    assert fields_shown(lab) == expected
    assert [row["payload"] for row in lab.rows()] == bodies
