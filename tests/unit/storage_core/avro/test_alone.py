"""Names: of two branches with one short name, of fields with aliases, without a namespace."""

import json

import pyarrow as pa
import pytest
from fastavro.schema import fingerprint

from storage_core.avro import AvroSchema, JsonEncoder, decode_batch
from storage_core.errors import InvalidRequestError


def schema(*fields, **more):
    listed = [{"name": name, "type": kind, **rest} for name, kind, rest in fields]
    return AvroSchema.parse(json.dumps({"type": "record", "name": "R", "fields": listed, **more}))


def rows(writer, *bodies, **more):
    result = decode_batch(pa.array(bodies, pa.binary()), writer, **more)
    assert not result.faults
    return result.table.to_pylist()


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
    result = rows(schema(("a", "int", {})), b"\2", reader=reader, columns=columns)
    assert result == [{name: expected[name] for name in columns or ("b", "a")}]


@pytest.mark.parametrize("columns", [None, ["c"], ["b"]])
def test_first_of_two_fields_with_one_alias_has_what_was_written(columns):
    aliased = {"aliases": ["a"], "default": 9}
    reader = schema(("c", "int", aliased), ("b", "int", aliased))
    expected = {"c": 1, "b": 9}
    result = rows(schema(("a", "int", {})), b"\2", reader=reader, columns=columns)
    assert result == [{name: expected[name] for name in columns or ("c", "b")}]


def test_namespace_of_null_is_none():
    assert schema(("a", "int", {}), namespace=None).full_name == "R"
    enum = {"type": "enum", "name": "K", "symbols": ["A"], "namespace": None}
    assert '"x.K"' in schema(("a", enum, {}), namespace="x").text


def bare(name="E", *symbols, **more):
    return {"type": "enum", "name": name, "symbols": symbols or ("A", "B"), **more}


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ([bare("E", namespace="")], ["E"]),
        ([bare("E", namespace=""), bare("E", "C", "D")], ["E", "x.E"]),
        ([bare("R", namespace="")], ["R"]),
        ([bare(".E")], ["E"]),
        ([bare("E", namespace=""), "E"], ["E", "E"]),
        ([bare("E", namespace=""), {"type": "array", "items": "E"}], ["E", "E"]),
        ([bare("E", "C", "D"), "E", bare("E", namespace="")], ["x.E", "x.E", "E"]),
    ],
)
def test_type_without_namespace_may_stand_inside_one_with(kinds, names):
    whole = schema(*((f"f{index}", kind, {}) for index, kind in enumerate(kinds)), namespace="x")
    types = [getattr(field.type, "items", field.type) for field in whole.fields]
    assert [field.name for field in types] == names
    again = AvroSchema.parse(whole.text)
    assert (again.text, again.fingerprint) == (whole.text, whole.fingerprint)


def test_fingerprint_has_no_namespace_where_a_type_has_none():
    # Computed by Avro's own rules from the canonical form, as fastavro has it.
    form = {
        "name": "x.R",
        "type": "record",
        "fields": [{"name": "f", "type": {"name": "E", "type": "enum", "symbols": ["A", "B"]}}],
    }
    expected = fingerprint(json.dumps(form, separators=(",", ":")), "CRC-64-AVRO")
    whole = schema(("f", bare("E", namespace=""), {}), namespace="x")
    assert whole.fingerprint.hex() == expected


@pytest.mark.parametrize("is_backwards", [False, True])
def test_references_without_namespace_are_found_by_types_that_have_one(is_backwards):
    held = {"type": "record", "name": "y.H", "fields": [{"name": "e", "type": "E"}]}
    references = [json.dumps(bare()), json.dumps(held)]
    fields = [{"name": "h", "type": "y.H"}, {"name": "e", "type": "E"}]
    text = json.dumps({"type": "record", "name": "x.R", "fields": fields})
    whole = AvroSchema.parse(text, references[::-1] if is_backwards else references)
    assert AvroSchema.parse(whole.text).identity == whole.identity
    assert rows(whole, b"\0\2") == [{"h": {"e": "A"}, "e": "B"}]
    assert JsonEncoder(whole).encode({"h": {"e": "A"}, "e": "B"}) == b"\0\2"


def test_name_that_is_not_there_is_told_without_a_dot():
    with pytest.raises(InvalidRequestError, match="refers to E, which"):
        schema(("e", "E", {}))
    with pytest.raises(InvalidRequestError, match=r"redefined named type: E$"):
        schema(("e", bare(), {}), ("f", bare(), {}))
    with pytest.raises(InvalidRequestError, match=r'"C", not E$'):
        JsonEncoder(AvroSchema.parse(json.dumps(bare()))).encode("C")


@pytest.mark.parametrize("kind", [["null", "int"], {"type": "array", "items": "int"}])
def test_type_within_a_type_is_that_type(kind):
    wrapped = AvroSchema.parse(json.dumps({"type": kind}))
    plain = AvroSchema.parse(json.dumps(kind))
    assert (wrapped.fingerprint, wrapped.full_name) == (plain.fingerprint, plain.full_name)
