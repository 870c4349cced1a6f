"""Which column each field is: never two in one, and never another one for what comes later."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storage_core.avro import AvroSchema
from storage_core.sql.field_columns import field_columns
from storage_core.sql.type_unification import struct_fields
from tests.unit.storage_core.strategies import few

NAMES = (
    *("temp", "Temp", "TEMP", "temp_2", "Temp_2", "temp_record", "temp_number", "TEMP_2_2"),
    *("shard", "Shard", "value_shard", "value_value_shard", "value_Shard", "state", "time"),
)
_INNER = {"type": "record", "name": "Inner", "fields": [{"name": "deep", "type": "int"}]}
KINDS = (
    *("int", "double", "string", "bytes", _INNER),
    *({"type": "array", "items": "int"}, {"type": "long", "logicalType": "timestamp-millis"}),
)
records = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS), min_size=1, max_size=6)
histories = st.lists(records, min_size=1, max_size=5)


def schemas_of(history):
    texts = []
    for fields in history:
        named = [{"name": name, "type": kind} for name, kind in _once(fields).items()]
        texts.append(json.dumps({"type": "record", "name": "R", "fields": named}))
    return [AvroSchema.parse(text) for text in texts]


def _once(fields):
    """Return fields whose types have names of their own."""
    return {
        name: {**kind, "name": f"Inner{index}"} if kind is _INNER else kind
        for index, (name, kind) in enumerate(fields.items())
    }


def names_of(schemas):
    """Return the column of each field by its type."""
    columns = field_columns(schemas)
    return {
        (field.name, field.type): columns.name_of(field.name, field.type)
        for schema in schemas
        for field in schema.arrow_schema()
    }


def column_names(*names):
    fields = [{name: "int"} if isinstance(name, str) else name for name in names]
    return [column.name for column in field_columns(schemas_of(fields))]


@few
@given(histories)
def test_no_two_fields_are_one_column_in_any_case(history):
    schemas = schemas_of(history)
    columns = list(field_columns(schemas))
    assert len({column.name.lower() for column in columns}) == len(columns)
    by_column: dict[str, list[Any]] = {}
    for (name, kind), column in names_of(schemas).items():
        by_column.setdefault(column, []).append((name, kind))
    assert sorted(by_column) == sorted(column.name for column in columns)
    for column in columns:
        assert {name for name, _ in by_column[column.name]} == {column.field}


@few
@given(histories, records)
def test_schema_that_comes_later_renames_no_column(history, later):
    before, after = names_of(schemas_of(history)), names_of(schemas_of([*history, later]))
    assert {field: after[field] for field in before} == before
    first = [column.name for column in field_columns(schemas_of(history))]
    assert [column.name for column in field_columns(schemas_of([*history, later]))][
        : len(first)
    ] == first


def test_field_that_differs_only_in_case_has_a_number():
    assert column_names("temp", "Temp", "TEMP") == ["temp", "Temp_2", "TEMP_3"]
    assert column_names("Temp", "temp") == ["Temp", "temp_2"]
    assert column_names("Temp", "temp", "temp_2") == ["Temp", "temp_2", "temp_2_2"]


def test_field_called_as_a_column_of_the_log_stands_behind_value():
    assert column_names("shard", "value_shard") == ["value_shard", "value_value_shard"]
    assert column_names("value_state", "State", "value_temp") == [
        "value_value_state",
        "value_State",
        "value_temp",
    ]


def test_values_that_nothing_has_together_have_the_name_that_came_first():
    assert column_names({"x": "int"}, {"x": {**_INNER}}) == ["x", "x_struct"]
    assert column_names({"x": {**_INNER}}, {"x": "int"}, {"x": "string"}) == ["x", "x_number"]


def test_fields_of_records_inside_are_told_apart_too():
    inners = [
        {"type": "record", "name": "Inner", "fields": [{"name": name, "type": "int"}]}
        for name in ("b", "B")
    ]
    (column,) = field_columns(schemas_of([{"x": inner} for inner in inners]))
    assert [field.name for field in struct_fields(column.types)] == ["b", "B_2"]
