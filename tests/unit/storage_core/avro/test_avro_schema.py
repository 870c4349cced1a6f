"""A schema's text: what it is made of, what tells it from others, and what is no schema."""

import json

import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema

PLACE = {
    "type": "record",
    "name": "Place",
    "namespace": "geo",
    "fields": [{"name": "at", "type": "double"}],
}


def record(*fields, **more):
    return json.dumps({"type": "record", "name": "a.Root", "fields": list(fields), **more})


def test_references_are_written_out_where_they_are_named_first():
    text = record(
        {"name": "from", "type": "geo.Place"}, {"name": "to", "type": ["null", "geo.Place"]}
    )
    schema = AvroSchema.parse(text, [json.dumps(PLACE)])
    alone = AvroSchema.parse(schema.text)
    assert (alone.text, alone.fingerprint) == (schema.text, schema.fingerprint)
    place = pa.struct([pa.field("at", pa.float64())])
    assert alone.arrow_schema() == pa.schema([pa.field("from", place), pa.field("to", place)])


def test_references_of_references_are_written_out():
    region = record({"name": "centre", "type": "geo.Place"}).replace("a.Root", "geo.Region")
    schema = AvroSchema.parse(
        record({"name": "in", "type": "geo.Region"}), [json.dumps(PLACE), region]
    )
    assert "geo.Place" in AvroSchema.parse(schema.text).text


def test_names_take_the_namespace_they_stand_in():
    inner = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    text = record({"name": "x", "type": inner}, {"name": "y", "type": "Kind"})
    assert AvroSchema.parse(text).arrow_schema().types == [pa.string(), pa.string()]


def test_reference_that_is_not_given_is_named():
    with pytest.raises(InvalidRequestError, match=r"refers to geo\.Place, which is missing"):
        AvroSchema.parse(record({"name": "from", "type": "geo.Place"}))


def test_fingerprint_is_the_one_that_avro_writes():
    # The numbers are of Avro's own tests; as bytes the lowest comes first.
    null, number = AvroSchema.parse('"null"'), AvroSchema.parse('{"type": "int"}')
    assert null.fingerprint == 0x63DD24E7CC258F8A.to_bytes(8, "little")
    assert number.fingerprint == 0x7275D51A3F395C8F.to_bytes(8, "little")


def test_fingerprint_knows_nothing_of_docs_but_all_of_names():
    plain = AvroSchema.parse(record({"name": "x", "type": "int"}))
    documented = AvroSchema.parse(record({"name": "x", "type": "int", "doc": "y"}, doc="z"))
    other = AvroSchema.parse(record({"name": "y", "type": "int"}))
    assert plain.fingerprint == documented.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "7",
        '{"type": "record"}',
        '{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
        '{"type": "array"}',
        '{"name": "x"}',
        '["int", 7]',
        '{"type": "fixed", "name": "F", "size": "many"}',
        "[" * 5_000 + "]" * 5_000,
        '{"type": "array", "items": ' * 100 + '"int"' + "}" * 100,
        '"' + "x" * 2**20 + '"',
        record({"name": "\ud800", "type": "int"}),
        record({"name": "x", "type": "int", "doc": "ä" * 2**18}).replace("\\u00e4", "ä"),
    ],
)
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(InvalidRequestError, match="schema"):
        AvroSchema.parse(text)


def test_what_could_not_be_read_again_alone_is_refused():
    place = json.dumps({**PLACE, "doc": "x" * 2**19})
    text = record({"name": "at", "type": "geo.Place"}, doc="x" * 2**19)
    with pytest.raises(InvalidRequestError, match="with its references"):
        AvroSchema.parse(text, [place])


def test_logical_type_that_does_not_fit_is_none():
    wide = {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10}
    on_text = {"type": "string", "logicalType": "date"}
    schema = AvroSchema.parse(record({"name": "a", "type": wide}, {"name": "b", "type": on_text}))
    assert schema.arrow_schema().types == [pa.binary(4), pa.string()]


def test_identity_begins_with_the_fingerprint_and_knows_logical_types_and_defaults():
    def offset(kind, default):
        field = {"name": "at", "type": kind, "default": default}
        return AvroSchema.parse(json.dumps({"type": "record", "name": "R", "fields": [field]}))

    plain = offset("long", 0)
    others = [offset({"type": "long", "logicalType": "timestamp-millis"}, 0), offset("long", 1)]
    assert {field.fingerprint for field in others} == {plain.fingerprint}
    assert len({field.identity for field in (plain, *others)}) == 3
    assert all(field.identity[:8] == plain.fingerprint for field in (plain, *others))
    assert offset("long", 0).identity == AvroSchema.parse(plain.text).identity == plain.identity


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["t~2"], "field 't~2' of a.Root"),
        ([""], "field '' of a.Root"),
        (["1a"], "field '1a'"),
        (["é"], "field 'é'"),
        (["a b"], "field 'a b'"),
        (["x", "y", "x"], "field 'x' of a.Root: it is repeated"),
    ],
)
def test_name_that_avro_forbids_and_one_that_is_there_twice_are_refused(fields, message):
    text = record(*({"name": name, "type": "int"} for name in fields))
    with pytest.raises(InvalidRequestError) as raised:
        AvroSchema.parse(text)
    assert message in str(raised.value)
    # Rows that came before are read all the same.
    assert [field.name for field in AvroSchema.stored(text).fields] == fields


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "record", "name": "In", "fields": [{"name": "a-b", "type": "int"}]},
        {"type": "enum", "name": "Kind", "symbols": ["A", "A"]},
        {"type": "enum", "name": "a..Kind", "symbols": ["A"]},
        {"type": "fixed", "name": "2wide", "size": 1},
    ],
)
def test_names_inside_are_judged_too(kind):
    for inside in (kind, ["null", kind], {"type": "array", "items": kind}):
        with pytest.raises(InvalidRequestError, match="not an Avro schema"):
            AvroSchema.parse(record({"name": "x", "type": inside}))
