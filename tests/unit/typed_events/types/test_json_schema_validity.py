"""Goal: a value that is valid by a JSON Schema is one of its event type, and no other is.

Method: flat schemas are drawn, and objects that fit and do not; another implementation of JSON
Schema says which do. Left out is where the two are meant to differ: integers that are written
`1.0`, null for a property that may only be absent, numbers as times, formats.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types

from typed_events.types.json_events import json_fault
from typed_events.types.json_schema import type_of_json_schema

DRAFT = "https://json-schema.org/draft/2020-12/schema"
NAMES = "abcd"
VALUES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "int": ({"type": "integer"}, [0, -5, 2**53]),
    "float": ({"type": "number"}, [0.5, 7, 1e300]),
    "bool": ({"type": "boolean"}, [True, False]),
    "text": ({"type": "string"}, ["", "ä", "new"]),
    "enum": ({"enum": ["new", "paid"]}, ["new", "paid"]),
    "typed enum": ({"type": "string", "enum": ["new", "x"]}, ["new", "x"]),
    "const": ({"const": "new"}, ["new"]),
}
STRANGE = [[], {}, "no", 2**40, 0.25, True]


def nullable(written: dict[str, Any]) -> list[dict[str, Any]]:
    null = {"type": "null"}
    ways: list[dict[str, Any]] = [{"anyOf": [written, null]}, {"oneOf": [null, written]}]
    if set(written) == {"type"}:
        ways.append({"type": ["null", written["type"]]})
    if set(written) == {"enum"}:
        ways.append({"enum": [*written["enum"], None]})
    return ways


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a schema, and an object that fits, or nearly."""
    properties: dict[str, Any] = {}
    required, fields = [], {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        written, values = VALUES[draw(st.sampled_from(sorted(VALUES)))]
        may_be_null = draw(st.booleans())
        properties[name] = draw(st.sampled_from(nullable(written))) if may_be_null else written
        is_required = draw(st.booleans())
        if is_required and not may_be_null:
            required.append(name)
        strange = [*STRANGE, None] if name in required or may_be_null else STRANGE
        pool = [*values, *values, *values, *strange]
        if draw(st.integers(0, 9)):
            fields[name] = draw(st.sampled_from(pool))
    if not draw(st.integers(0, 9)):
        fields["more"] = 1
    schema = {
        "$schema": DRAFT,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return schema, fields


@given(cases())
def test_what_is_valid_by_the_schema_is_of_the_type_and_nothing_else(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    schema, fields = case
    made = type_of_json_schema(json.dumps(schema))
    is_valid = Draft202012Validator(schema).is_valid(fields)
    assert (json_fault(made, json.dumps(fields).encode()) is None) == is_valid
