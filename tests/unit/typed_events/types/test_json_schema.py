"""JSON Schema as event types: which fields it has, and which schemas are of no type."""

import json
from typing import Any

import pytest

from typed_events.errors import CommandError
from typed_events.types.event_type import EventType
from typed_events.types.json_events import json_fault, json_schema_of
from typed_events.types.json_schema import type_of_json_schema

TEXT = {"type": "string"}
COLOUR = {"$ref": "#/$defs/colour"}


def text_of(properties: object, required: object = ("a",), **more: Any) -> str:
    written: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    return json.dumps({**written, **more})


def field_of(written: Any, **more: Any) -> str:
    return str(type_of_json_schema(text_of({"a": written}, **more)).fields["a"])


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({"type": "integer", "minimum": 0}, "int"),
        ({"type": "number"}, "float"),
        ({"type": ["integer", "number"]}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "string", "maxLength": 5, "pattern": "x"}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "uuid"}, "uuid"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": "integer", "format": "date-time"}, "int"),
        ({"type": ["null", "string"]}, "string | null"),
        ({"type": ["string", "null"], "format": "date-time"}, "timestamp | null"),
        ({"type": "string", "enum": ["new", "paid"]}, '["new", "paid"]'),
        ({"enum": ["new", "paid", None]}, '["new", "paid"] | null'),
        ({"const": "new"}, '["new"]'),
        ({"type": "string", "enum": ["in transit", "paid"]}, "string"),
        ({"type": "integer", "enum": [1, 2]}, "int"),
        ({"enum": [1, 2]}, "int"),
        ({"const": True}, "bool"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "A"}, "int | null"),
        ({"oneOf": [{"type": "null", "title": "Not included"}, TEXT]}, "string | null"),
        ({"allOf": [COLOUR], "default": "red"}, '["red", "blue"]'),
        ({"anyOf": [COLOUR, {"type": "null"}]}, '["red", "blue"] | null'),
        (COLOUR, '["red", "blue"]'),
    ],
)
def test_property_is_a_field_of_a_type(written: dict[str, Any], field: str) -> None:
    assert field_of(written, **{"$defs": {"colour": {"enum": ["red", "blue"]}}}) == field


def test_property_that_is_not_required_may_be_absent() -> None:
    made = type_of_json_schema(text_of({"a": TEXT, "b": TEXT}))
    assert {name: str(kind) for name, kind in made.fields.items()} == {
        "a": "string",
        "b": "string | null",
    }


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", None])
def test_schema_may_be_a_reference_to_one_of_its_definitions(draft: str | None) -> None:
    order = json.loads(text_of({"a": {"$ref": "#/definitions/n~1m"}}))
    definitions = {"order": order, "n/m": {"type": "integer"}}
    written = {"$schema": draft, "$ref": "#/definitions/order", "definitions": definitions}
    assert str(type_of_json_schema(json.dumps(written)).fields["a"]) == "int"


def test_property_may_have_a_name_that_events_have_in_every_type() -> None:
    made = type_of_json_schema(text_of({"id": TEXT, "timestamp": TEXT}, ["id"]))
    assert json_fault(made, b'{"id": "x", "timestamp": "y"}') is None


def test_type_is_read_from_the_schema_that_rows_keep() -> None:
    made = type_of_json_schema(text_of({"a": {"enum": ["x"]}, "b": {"type": "number"}}))
    assert EventType.from_avro(1, json_schema_of(made).text) == made


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{", "is no JSON Schema: no JSON"),
        ("[" * 100_000, "is no JSON Schema: no JSON"),
        ("true", "the schema has no type"),
        ('{"type": "string"}', "the schema is not of an object with properties"),
        ('{"type": "object"}', "the schema is not of an object with properties"),
        (text_of({}), "the schema has 0 properties, not 1 to 1,000"),
        (text_of({f"a{n}": TEXT for n in range(1001)}, []), "has 1,001 properties"),
        (text_of({"a": TEXT}, allOf=[{}]), "the schema has allOf: the fields"),
        (text_of({"a": TEXT}, patternProperties={}), "the schema has patternProperties"),
        (text_of({"b": TEXT}), 'property "a" is required, and nothing says what it is'),
        (text_of({"a-b": TEXT}, []), 'property "a-b" cannot be a field'),
        (text_of({"a": {"type": "object"}}), 'property "a" is of type object; fields are flat'),
        (text_of({"a": {"type": "array"}}), 'property "a" is of type array; fields are flat'),
        (text_of({"a": {"type": ["string", "integer"]}}), '"a" is of string and integer: a field'),
        (text_of({"a": {"type": "null"}}), 'property "a" is of no type but null'),
        (text_of({"a": {"enum": ["x", 5]}}), 'property "a" is of string and integer'),
        (text_of({"a": {}}), 'property "a" has no type'),
        (text_of({"a": True}), 'property "a" has no type'),
        (text_of({"a": {"type": 5}}), 'property "a" has no type'),
        (text_of({"a": {"anyOf": [TEXT, {"type": "integer"}]}}), "has anyOf of more than a type"),
        (text_of({"a": {"allOf": [TEXT, TEXT]}}), 'property "a" has allOf of more than a type'),
        (text_of({"a": {"type": "string", "not": {}}}), 'property "a" has not, which no type'),
        (text_of({"a": {"$ref": "https://x.y/z"}}), 'to "https://x.y/z", which is elsewhere'),
        (text_of({"a": {"$ref": "#/$defs/b"}}), 'a reference to "#/$defs/b", which is not there'),
        (text_of({"a": {"$ref": "#/properties/a"}}), "has more than 32 references in a row"),
    ],
)
def test_schema_of_no_type_is_refused_by_its_property(written: str, said: str) -> None:
    with pytest.raises(CommandError) as refused:
        type_of_json_schema(written)
    assert said in refused.value.message
    assert "\n" not in refused.value.message
