"""Which column of a table each field is: never two in one, and never another one afterwards."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.avro import AvroSchema
from storage_core.errors import UnavailableError
from storage_core.lake.delta_types import field_of
from storage_core.lake.table_columns import TableColumns
from storage_core.parts.typed_columns import fields_in, fields_with_columns
from storage_core.sql.stream_columns import row_columns
from tests.unit.storage_core.strategies import few

OWN = row_columns(has_keys=False)
NAMES = (
    *("temp", "Temp", "TEMP", "temp_2", "Temp_2", "temp_long", "temp_string", "TEMP_2_2"),
    *("shard", "Shard", "value_shard", "value_value_shard", "state", "time", "secondary", "key"),
)


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


KINDS: tuple[Any, ...] = (
    *("boolean", "int", "long", "float", "double", "string", "bytes"),
    *(logical("long", f"timestamp-{unit}") for unit in ("millis", "micros", "nanos")),
    *(logical("int", "date"), logical("int", "time-millis")),
    logical("long", "local-timestamp-micros"),
    {"type": "array", "items": "int"},
    {"type": "array", "items": "string"},
    {"type": "map", "values": "double"},
    *(record(deep="int"), record(deep="string"), record(Deep="int"), record(deep="int", b="int")),
)
records = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS), min_size=1, max_size=6)
histories = st.lists(records, min_size=1, max_size=5)


def schemas_of(history: list[dict[str, Any]]) -> list[AvroSchema]:
    texts = []
    for fields in history:
        named = [
            {"name": name, "type": _named(kind, f"Inner{index}")}
            for index, (name, kind) in enumerate(fields.items())
        ]
        texts.append(json.dumps({"type": "record", "name": "R", "fields": named}))
    return [AvroSchema.parse(text) for text in texts]


def _named(kind: Any, name: str) -> Any:
    return {**kind, "name": name} if isinstance(kind, dict) and "fields" in kind else kind


def table_of(history: list[dict[str, Any]], table: pa.Schema | None = None) -> TableColumns:
    return TableColumns(OWN, schemas_of(history), table)


def columns_of(*history: dict[str, Any]) -> dict[str, str]:
    """Return the columns of fields, and their types."""
    schema = table_of(list(history)).schema
    return {column.name: str(column.type) for column in schema if column.name not in OWN.names}


def columns_in(table: TableColumns, history: list[dict[str, Any]]) -> list[str]:
    """Return which column of the table has each field of each schema, by a part of it alone."""
    result = []
    for schema in schemas_of(history):
        part = schema.arrow_schema(fields_with_columns(schema))
        part = pa.schema([one.with_name(_stored(one.name)) for one in part])
        result += [json.dumps(item) for item in table.casts_of(part).origins.items()]
    return result


def _stored(field: str) -> str:
    return next(name for name in (field, f"value_{field}") if fields_in([name]) == {name: field})


@few
@given(histories)
def test_no_two_columns_are_alike_in_any_case(history):
    schema = table_of(history).schema
    assert len({column.name.lower() for column in schema}) == len(schema)
    assert schema.names[: len(OWN)] == OWN.names


@few
@given(histories, histories)
def test_later_schemas_change_no_column(history, later):
    before = table_of(history).schema
    # Whether the table is there, or is made for all of them at once.
    grown = table_of([*history, *later], before)
    assert table_of([*history, *later]).schema.equals(grown.schema)
    assert grown.schema.names[: len(before)] == before.names
    assert [field_of(column) for column in grown.schema][: len(before)] == [
        field_of(column) for column in before
    ]
    names = {column.name for column in grown.added}
    assert {name for name in grown.schema.names if name not in before.names} <= names
    assert table_of(later, grown.schema).added == []


@few
@given(histories)
def test_each_field_has_a_column_that_shows_it(history):
    table = table_of(history)
    assert table_of(history, table.schema).added == []
    assert len(columns_in(table, history)) == sum(
        len(fields_with_columns(schema)) for schema in schemas_of(history)
    )


def test_columns_have_the_widest_types():
    assert columns_of({"a": "int", "b": "float", "c": logical("long", "timestamp-millis")}) == {
        "a": "int64",
        "b": "double",
        "c": "timestamp[us, tz=UTC]",
    }


def test_values_that_a_column_cannot_hold_have_another_one():
    kinds = ["int", "long", "double", "string", logical("long", "timestamp-nanos"), "float"]
    assert columns_of(*({"x": kind} for kind in kinds)) == {
        "x": "int64",
        "x_double": "double",
        "x_string": "string",
        "x_timestamp_ns": "int64",
    }


def test_times_without_a_type_of_delta_are_text_beside_strings():
    kinds = ["string", logical("int", "time-millis"), logical("long", "local-timestamp-micros")]
    assert columns_of(*({"x": kind} for kind in kinds)) == dict.fromkeys(
        ("x", "x_time", "x_local_timestamp"), "string"
    )


def test_records_grow():
    versions = [record(a="int"), record(a="string", b="int"), record(A="long")]
    assert columns_of(*({"x": version} for version in versions)) == {
        "x": "struct<a: int64, a_string: string, b: int64, A_2: int64>"
    }


def test_field_called_as_a_column_of_the_log_stands_behind_value():
    assert list(columns_of({"shard": "int", "time": "int", "value_state": "int"})) == [
        "value_shard",
        "value_time",
        "value_value_state",
    ]


def test_log_has_no_unsigned_columns():
    types = {column.name: column.type for column in table_of([{"x": "int"}]).schema}
    assert types["version"] == pa.int32()
    assert types["state"] == pa.int16()


def test_part_of_a_schema_that_was_added_later_is_refused():
    table = table_of([{"x": record(a="int")}])
    later = pa.schema([("x", pa.struct([("a", pa.int32()), ("b", pa.int32())]))])
    with pytest.raises(UnavailableError, match="since"):
        table.casts_of(later)
    with pytest.raises(UnavailableError, match="since"):
        table.casts_of(pa.schema([("y", pa.int32())]))


def test_names_alone_tell_the_fields_of_a_table_whose_metadata_is_lost():
    schema = table_of([{"shard": "int", "x": "string"}]).schema
    bare = pa.schema([column.remove_metadata() for column in schema])
    assert table_of([{"shard": "long", "x": "string"}], bare).added == []
