"""Names: of two branches with one short name, of fields with aliases, without a namespace."""

import json

import pyarrow as pa
import pytest

from storage_core.fields import AvroSchema, decode_batch


def schema(*fields, **more):
    listed = [{"name": name, "type": kind, **rest} for name, kind, rest in fields]
    return AvroSchema.parse(json.dumps({"type": "record", "name": "R", "fields": listed, **more}))


def rows(writer, *bodies, **more):
    found = decode_batch(pa.array(bodies, pa.binary()), writer, **more)
    assert not found.faults
    return found.table.to_pylist()


def inner(namespace, field="i"):
    fields = [{"name": field, "type": "int"}]
    return {"type": "record", "name": "X", "namespace": namespace, "fields": fields}


def test_branches_of_one_short_name_are_told_apart():
    writer = schema(("u", [inner("a"), inner("b")], {}))
    assert rows(writer, b"\x02\x04", b"\0\6") == [
        {"u": {"member0": None, "member1": {"i": 2}}},
        {"u": {"member0": {"i": 3}, "member1": None}},
    ]


def test_enums_of_one_short_name_have_symbols_of_their_own():
    def enum(namespace, *symbols):
        return {"type": "enum", "name": "E", "namespace": namespace, "symbols": symbols}

    writer = schema(("u", [enum("a", "P"), enum("b", "Q", "P")], {}))
    assert rows(writer, b"\x02\x00", b"\0\0") == [
        {"u": {"member0": None, "member1": "Q"}},
        {"u": {"member0": "P", "member1": None}},
    ]


@pytest.mark.parametrize("columns", [None, ["b"], ["b", "a"]])
def test_field_of_its_own_name_stands_before_one_with_an_alias(columns):
    reader = schema(("b", "int", {"aliases": ["a"], "default": 9}), ("a", "int", {}))
    expected = {"b": 9, "a": 1}
    found = rows(schema(("a", "int", {})), b"\2", reader=reader, columns=columns)
    assert found == [{name: expected[name] for name in columns or ("b", "a")}]


@pytest.mark.parametrize("columns", [None, ["c"], ["b"]])
def test_first_of_two_fields_with_one_alias_has_what_was_written(columns):
    aliased = {"aliases": ["a"], "default": 9}
    reader = schema(("c", "int", aliased), ("b", "int", aliased))
    expected = {"c": 1, "b": 9}
    found = rows(schema(("a", "int", {})), b"\2", reader=reader, columns=columns)
    assert found == [{name: expected[name] for name in columns or ("c", "b")}]


def test_namespace_of_null_is_none():
    assert schema(("a", "int", {}), namespace=None).full_name == "R"
    enum = {"type": "enum", "name": "K", "symbols": ["A"], "namespace": None}
    assert '"x.K"' in schema(("a", enum, {}), namespace="x").text


@pytest.mark.parametrize("kind", [["null", "int"], {"type": "array", "items": "int"}])
def test_type_within_a_type_is_that_type(kind):
    wrapped = AvroSchema.parse(json.dumps({"type": kind}))
    plain = AvroSchema.parse(json.dumps(kind))
    assert (wrapped.fingerprint, wrapped.full_name) == (plain.fingerprint, plain.full_name)


def test_bodies_of_nested_arrays_take_time_by_their_bytes():
    # Each body's items are found one by one, and none of them copies what is left of it.
    of = {"type": "array", "items": {"type": "array", "items": "int"}}
    lists = [list(range(at % 7)) for at in range(3000)]
    writer = schema(("c", of, {}))
    body = b"".join(
        [_long(len(lists)), *(_written(one) for one in lists), b"\0"],
    )
    assert rows(writer, *[body] * 3) == [{"c": lists}] * 3


def _written(numbers):
    items = b"".join(map(_long, numbers))
    return _long(len(numbers)) + items + b"\0" if numbers else b"\0"


def _long(number):
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
