"""What one schema wrote, read by another: as Avro resolves it, held to fastavro."""

import io
import json
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, decode_batch, encode_batch
from tests.unit.storage_core.avro.plain_avro import written

VALUES: dict[str, list[Any]] = {
    "int": [0, -1, 2**24],
    "long": [0, -1, 2**40],
    "float": [0.5, -2.0],
    "double": [0.5, -2.0],
    "string": ["", "aé"],
    "bytes": [b"", b"ab"],
}
PROMOTIONS = [
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
]


def root(*fields):
    return {"type": "record", "name": "Root", "fields": list(fields)}


def field(name, of, **more):
    return {"name": name, "type": of, **more}


def as_both_read(writer, reader, values, columns=None):
    """Return what is shown of values, once fastavro was seen to read the same."""
    bodies = [written(writer, value, Random(0)) for value in values]
    result = decode_batch(
        pa.array(bodies, pa.binary()),
        AvroSchema.parse(json.dumps(writer)),
        reader=AvroSchema.parse(json.dumps(reader)),
        columns=columns,
    )
    parsed = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    faults = {fault.row: fault.reason for fault in result.faults}
    rows_read = result.table.to_pylist()
    for row, body in enumerate(bodies):
        try:
            theirs: Any = fastavro.schemaless_reader(io.BytesIO(body), *parsed)
        except Exception:  # noqa: BLE001 - of what does not resolve fastavro raises several kinds
            assert row in faults
            continue
        expected = {name: theirs[name] for name in result.table.column_names}
        assert rows_read[row] == expected
    return rows_read, faults


@pytest.mark.parametrize(("writer", "reader"), PROMOTIONS)
@pytest.mark.parametrize("is_optional", [False, True])
def test_numbers_and_bytes_are_promoted(writer, reader, is_optional):
    wanted = ["null", reader] if is_optional else reader
    rows = [{"x": value} for value in VALUES[writer]]
    rows_read, faults = as_both_read(root(field("x", writer)), root(field("x", wanted)), rows)
    assert not faults
    assert len(rows_read) == len(rows)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [("long", "int"), ("double", "float"), ("string", "int"), ("null", "int"), ("int", "boolean")],
)
def test_what_does_not_resolve_is_refused_before_a_body_is_read(writer, reader):
    with pytest.raises(InvalidRequestError, match=f"field x: {writer} is not {reader}"):
        decode_batch(
            pa.array([], pa.binary()),
            AvroSchema.parse(json.dumps(root(field("x", writer)))),
            reader=AvroSchema.parse(json.dumps(root(field("x", reader)))),
        )


def test_fields_come_in_the_readers_order_with_defaults_for_those_not_written():
    writer = root(field("a", "int"), field("b", "string"), field("c", "double"))
    reader = root(
        field("c", "double"),
        field("new", {"type": "array", "items": "int"}, default=[1, 2]),
        field("a", "long"),
        field("none", ["null", "string"], default=None),
        field("text", ["string", "null"], default="t"),
        field("map", {"type": "map", "values": "int"}, default={}),
    )
    rows_read, faults = as_both_read(
        writer, reader, [{"a": 1, "b": "x", "c": 2.0}], columns=["c", "a"]
    )
    assert rows_read == [{"c": 2.0, "a": 1}]
    rows_read, faults = as_both_read(
        writer, reader, [{"a": 1, "b": "x", "c": 2.0}], columns=["c", "new", "a", "none", "text"]
    )
    assert (rows_read, faults) == (
        [{"c": 2.0, "new": [1, 2], "a": 1, "none": None, "text": "t"}],
        {},
    )


def test_defaults_of_bytes_and_nested_records_are_what_json_says():
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [field("x", "int", default=7), field("y", "bytes", default="\u00ff")],
    }
    reader = root(field("a", "int"), field("in", inner, default={"x": 3}))
    result = decode_batch(
        pa.array([b"\x02"], pa.binary()),
        AvroSchema.parse(json.dumps(root(field("a", "int")))),
        reader=AvroSchema.parse(json.dumps(reader)),
    )
    assert result.table.to_pylist() == [{"a": 1, "in": {"x": 3, "y": b"\xff"}}]


def test_field_without_default_that_is_not_written_is_named():
    with pytest.raises(
        InvalidRequestError, match="field b is not in the writer's schema, and has no default"
    ):
        decode_batch(
            pa.array([], pa.binary()),
            AvroSchema.parse(json.dumps(root(field("a", "int")))),
            reader=AvroSchema.parse(json.dumps(root(field("b", "int")))),
        )


def test_default_that_does_not_fit_is_refused():
    with pytest.raises(InvalidRequestError, match="Default value <x> must match"):
        AvroSchema.parse(json.dumps(root(field("b", "int", default="x"))))


def fixed(size, **more):
    return {"type": "fixed", "name": "F", "size": size, **more}


DECIMAL = {"logicalType": "decimal", "precision": 2}
ENDLESS = {"type": "record", "name": "N", "fields": [field("n", "N", default={})]}


@pytest.mark.parametrize(
    ("kind", "default", "why"),
    [
        ("float", 1e300, "too large"),
        ("string", "\ud800", "surrogates"),
        (fixed(2), "a", "expected 2 bytes, got 1"),
        (fixed(300), "a", "expected 300 bytes, got 1"),
        (fixed(2, **DECIMAL), "\x7f\x00", "precision"),
        ({"type": "bytes", **DECIMAL}, "\x7f", "precision"),
        ({"type": "bytes", **DECIMAL}, "", "without bytes"),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000, "range"),
        ({"type": "int", "logicalType": "time-millis"}, -1, "range"),
        ({"type": "array", "items": {"type": "long", "logicalType": "time-micros"}}, [-1], "range"),
        (ENDLESS, {}, "recursion"),
    ],
)
def test_default_that_no_body_could_hold_is_refused(kind, default, why):
    reader = AvroSchema.parse(json.dumps(root(field("b", kind, default=default))))
    with pytest.raises(InvalidRequestError, match=f"the default .* does not fit its type.*{why}"):
        decode_batch(pa.array([b""]), AvroSchema.parse(json.dumps(root())), reader=reader)
    with pytest.raises(InvalidRequestError, match=f"the default .* does not fit its type.*{why}"):
        encode_batch(pa.table({"a": [1]}), schema_with_another(reader))


def test_default_beyond_any_number_is_no_schema():
    with pytest.raises(InvalidRequestError, match=r"not an Avro schema: .*too large"):
        AvroSchema.parse(json.dumps(root(field("b", "double", default=10**400))))


def schema_with_another(reader):
    whole = json.loads(reader.text)
    return AvroSchema.parse(json.dumps({**whole, "fields": [field("a", "long"), *whole["fields"]]}))


@pytest.mark.parametrize("kind", ["float", "double"])
def test_whole_number_is_a_default_of_a_number_of_either_width(kind):
    reader = AvroSchema.parse(json.dumps(root(field("b", kind, default=2**24 + 1))))
    result = decode_batch(pa.array([b""]), AvroSchema.parse(json.dumps(root())), reader=reader)
    assert result.table["b"].to_pylist() == [2**24 if kind == "float" else 2**24 + 1]


def test_renamed_field_is_found_by_its_alias():
    writer, reader = root(field("old", "int")), root(field("new", "long", aliases=["old"]))
    assert as_both_read(writer, reader, [{"old": 5}]) == ([{"new": 5}], {})


def test_symbol_the_reader_lacks_is_its_default_or_a_fault():
    writer = root(field("e", {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}))
    rows = [{"e": symbol} for symbol in "ABC"]
    lenient = {"type": "enum", "name": "E", "symbols": ["C", "A"], "default": "A"}
    assert as_both_read(writer, root(field("e", lenient)), rows)[0] == [
        {"e": "A"},
        {"e": "A"},
        {"e": "C"},
    ]
    strict = {"type": "enum", "name": "E", "symbols": ["C", "A"]}
    rows_read, faults = as_both_read(writer, root(field("e", strict)), rows)
    assert rows_read == [{"e": "A"}, {"e": None}, {"e": "C"}]
    assert "symbol B is not in the reader's enum" in faults[1]


def test_branch_the_reader_lacks_is_a_fault_of_its_rows_alone():
    writer, reader = root(field("u", ["null", "string", "int"])), root(field("u", ["null", "long"]))
    rows = [{"u": (0, None)}, {"u": (1, "x")}, {"u": (2, 3)}]
    rows_read, faults = as_both_read(writer, reader, rows)
    assert rows_read == [{"u": None}, {"u": None}, {"u": 3}]
    assert list(faults) == [1]


def test_null_that_the_reader_does_not_take_is_a_fault():
    writer, reader = root(field("u", ["null", "int"])), root(field("u", "int"))
    rows_read, faults = as_both_read(writer, reader, [{"u": (1, 4)}, {"u": (0, None)}])
    assert rows_read == [{"u": 4}, {"u": None}]
    assert list(faults) == [1]


def test_items_values_and_nested_records_resolve_too():
    inner = {"type": "record", "name": "In", "fields": [field("a", "int"), field("b", "string")]}
    other = {"type": "record", "name": "In", "fields": [field("a", "double")]}
    writer = root(
        field("list", {"type": "array", "items": "int"}),
        field("of", {"type": "array", "items": inner}),
    )
    reader = root(
        field("list", {"type": "array", "items": "long"}),
        field("of", {"type": "array", "items": other}),
    )
    row = {"list": [1, 2], "of": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}
    assert as_both_read(writer, reader, [row]) == (
        [{"list": [1, 2], "of": [{"a": 1.0}, {"a": 2.0}]}],
        {},
    )


def test_timestamp_of_another_unit_is_refused_instead_of_being_taken_for_it():
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    with pytest.raises(InvalidRequestError, match="timestamp-millis is not timestamp-micros"):
        decode_batch(
            pa.array([], pa.binary()),
            AvroSchema.parse(json.dumps(root(field("t", millis)))),
            reader=AvroSchema.parse(json.dumps(root(field("t", micros)))),
        )


def test_plain_number_becomes_the_readers_timestamp():
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    result = decode_batch(
        pa.array([b"\x02"], pa.binary()),
        AvroSchema.parse(json.dumps(root(field("t", "long")))),
        reader=AvroSchema.parse(json.dumps(root(field("t", micros)))),
    )
    assert result.table.column("t").type == pa.timestamp("us", "UTC")
    assert result.table.column("t").cast(pa.int64()).to_pylist() == [1]
