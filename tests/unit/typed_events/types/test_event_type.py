"""Versions of a type: what DEFINE makes, and what a new one may change."""

import json
from collections.abc import Sequence

import pytest

from storage_core.avro import AvroSchema
from typed_events.errors import CommandError
from typed_events.language.commands import Define
from typed_events.language.parse import parse
from typed_events.types import EventType, FieldType, next_version

ALL_KINDS = (
    '{i: "int", f: "float", s: "string", b: "bool", u: "uuid", t: "timestamp", d: "date", '
    'e: ["a", "b"], n: "INT | Null"}'
)


def define(fields: str, name: str = "orders", rest: str = "") -> Define:
    """Return a DEFINE; `rest` is `AS 2`."""
    command = parse(f"DEFINE {name} {rest} FIELDS {fields}")
    assert isinstance(command, Define)
    return command


def versions_of(*fields: str) -> list[EventType]:
    """Return the versions that definitions make, one after the other."""
    versions: list[EventType] = []
    for written in fields:
        made = next_version(define(written), versions)
        if made not in versions:
            versions.append(made)
    return versions


def refusal(fields: str, *, after: Sequence[str] = (), name: str = "orders", rest: str = "") -> str:
    """Return the line that refuses a definition."""
    versions = versions_of(*after)
    with pytest.raises(CommandError) as refused:
        next_version(define(fields, name, rest), versions)
    assert str(refused.value).isprintable()
    return str(refused.value)


def test_type_is_an_avro_record_of_its_fields() -> None:
    (version,) = versions_of(ALL_KINDS)
    record = json.loads(version.avro_text)
    assert (record["name"], record["namespace"]) == ("orders", "shardlog.events")
    assert {field["name"]: field["type"] for field in record["fields"]} == {
        "i": "long",
        "f": "double",
        "s": "string",
        "b": "boolean",
        "u": {"type": "string", "logicalType": "uuid"},
        "t": {"type": "long", "logicalType": "timestamp-micros"},
        "d": {"type": "int", "logicalType": "date"},
        "e": {"type": "enum", "name": "orders_e", "symbols": ["a", "b"]},
        "n": ["null", "long"],
    }
    assert record["fields"][-1]["default"] is None


def test_type_is_read_back_from_its_schema() -> None:
    for command in (define(ALL_KINDS), define(ALL_KINDS, "cursors")):
        version = next_version(command, [])
        assert EventType.from_avro(1, version.avro_text) == version
        assert AvroSchema.parse(version.avro_text).full_name == f"shardlog.events.{version.name}"


def test_ttl_of_a_state_type_is_in_its_schema() -> None:
    command = parse('DEFINE cursors FIELDS {x: "float"} AS STATE TTL 30m')
    assert isinstance(command, Define)
    version = next_version(command, [])
    assert json.loads(version.avro_text)["ttlSeconds"] == 1800
    assert EventType.from_avro(1, version.avro_text) == version


def test_type_and_field_of_one_name_are_two_to_avro() -> None:
    version = next_version(define('{status: ["open"]}', "status"), [])
    assert version.schema.full_name == "shardlog.events.status"


def test_same_fields_again_make_no_version() -> None:
    first, second = versions_of('{a: "int", b: "string"}', '{a: "int"}')
    assert next_version(define('{a: "int"}'), [first, second]) is second
    assert next_version(define('{b: "string", a: "int"}', rest="AS 1"), [first, second]) is first
    assert next_version(define('{a: "int", b: "string"}'), [first, second]).version == 3


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('{a: "int"}', '{a: "int", b: "string"}'),
        ('{a: "int", b: "string"}', '{a: "int"}'),
        ('{a: "int"}', '{a: "int | null"}'),
        ('{a: "int"}', '{a: "float"}'),
        ('{a: "int"}', '{a: "float | null"}'),
        ('{a: "int | null"}', '{a: "float | null"}'),
        ('{a: ["x", "y"]}', '{a: ["z", "x"]}'),
        ('{a: "int"}', '{b: "int"}'),
    ],
)
def test_new_version_may(was: str, becomes: str) -> None:
    assert [version.version for version in versions_of(was, becomes)] == [1, 2]


@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        ('{a: "float"}', '{a: "int"}', "was float in version 1 and cannot become int: a new"),
        ('{a: "int"}', '{a: "string"}', "was int in version 1 and cannot become string: a new"),
        ('{a: "int | null"}', '{a: "int"}', "was int | null in version 1 and cannot become int"),
        ('{a: "string"}', '{a: ["x"]}', 'was string in version 1 and cannot become ["x"]: a new'),
        ('{a: "timestamp"}', '{a: "int"}', "was timestamp in version 1 and cannot become int"),
        ('{a: "int"}', '{A: "int"}', 'was "a": names that differ in case only are one to SQL'),
    ],
)
def test_new_version_may_not(was: str, becomes: str, line: str) -> None:
    assert line in refusal(becomes, after=[was])


def test_field_that_was_dropped_comes_back_as_what_it_was() -> None:
    dropped = ['{a: "int", b: "int"}', '{b: "int"}']
    assert "was int in version 1" in refusal('{a: "string", b: "int"}', after=dropped)
    assert len(versions_of(*dropped, '{a: "int", b: "float"}')) == 3


def test_written_version_is_the_next_or_one_that_is_the_same() -> None:
    assert refusal('{a: "int"}', rest="AS 2") == 'the next version of "orders" is 1, not 2'
    assert refusal('{b: "int"}', after=['{a: "int"}'], rest="AS 3") == (
        'the next version of "orders" is 2, not 3'
    )
    assert refusal('{b: "int"}', after=['{a: "int"}'], rest="AS 1") == (
        'version 1 of "orders" is there, with other fields: a new version is AS 2'
    )


def test_events_and_state_stay_what_they_are() -> None:
    line = refusal('{a: "int", b: "int"} AS STATE TTL 1h', after=['{a: "int"}'])
    assert line == (
        '"orders" is a type of events and cannot become one of state with TTL 1h: '
        "define another type"
    )


@pytest.mark.parametrize(
    ("name", "fields", "line"),
    [
        ("_orders", '{a: "int"}', '"_orders" cannot be the name of a type'),
        ("or-ders", '{a: "int"}', '"or-ders" cannot be the name of a type'),
        ("7", '{a: "int"}', '"7" cannot be the name of a type'),
        ("o" * 201, '{a: "int"}', "is at most 200 long"),
        ("orders", '{"a-b": "int"}', '"a-b" cannot be the name of a field'),
        ("orders", '{"": "int"}', '"" cannot be the name of a field'),
        ("orders", '{"a\\n": "int"}', '"a\\n" cannot be the name of a field'),
        ("orders", '{id: "int"}', 'every event has "id" already'),
        ("orders", '{Timestamp: "int"}', 'every event has "timestamp" already'),
        ("orders", '{a: "int", A: "int"}', 'fields "a" and "A" differ in case only'),
        ("orders", '{a: "strings"}', 'field "a": "strings" is no type; did you mean string?'),
        ("orders", '{a: "int | nul"}', 'field "a": "int | nul" is no type; there are int, float'),
        ("orders", '{a: "enum"}', 'field "a": "enum" is no type'),
        ("orders", '{a: ["x", "y", "x"]}', 'field "a": the value "x" is there twice'),
        ("orders", '{a: ["x y"]}', 'field "a": "x y" cannot be the value of an enum'),
    ],
)
def test_what_cannot_be_defined_is_refused(name: str, fields: str, line: str) -> None:
    assert line in refusal(fields, name=name)


def test_fields_are_bounded() -> None:
    many = {f"f{number}": "int" for number in range(1001)}
    with pytest.raises(CommandError, match="a type has 1 to 1,000 fields, not 1,001"):
        next_version(Define("orders", None, many), [])
    with pytest.raises(CommandError, match="a type has 1 to 1,000 fields, not 0"):
        next_version(Define("orders", None, {}), [])


def test_field_is_written_as_define_has_it() -> None:
    assert str(FieldType("int", is_nullable=True)) == "int | null"
    assert str(FieldType("enum", values=("a", "b"))) == '["a", "b"]'
