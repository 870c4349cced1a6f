"""Fields find their columns: by their own names, beside the log's, never two in one."""

import json

import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema
from streaming_jobs.common.field_columns import OWN_COLUMNS, fields_by_column
from streaming_jobs.source.spark_columns import known_columns


def schema_of(*names):
    fields = [{"name": name, "type": "int"} for name in names]
    return AvroSchema.parse(json.dumps({"type": "record", "name": "a.R", "fields": fields}))


def test_field_has_its_own_name_unless_a_column_has_it():
    columns = fields_by_column(schema_of("heat", "Key", "value", "_corrupt_value", "late_"))
    assert list(columns) == ["heat", "value_Key", "value_value", "value__corrupt_value", "late_"]
    assert list(columns.values()) == ["heat", "Key", "value", "_corrupt_value", "late_"]
    columns = fields_by_column(schema_of("key", "value_key", "value_value_key", "value_heat"))
    names = ["value_key", "value_value_key", "value_value_value_key", "value_heat"]
    assert list(columns) == names


def test_value_of_no_record_is_the_column_value():
    assert fields_by_column(AvroSchema.parse('"long"')) == {"value": "value"}


@pytest.mark.parametrize("names", [("heat", "HEAT"), ("Value_Key", "value_key"), ("KEY", "key")])
def test_fields_that_would_be_one_column_are_refused(names):
    with pytest.raises(InvalidRequestError, match="would both be the column"):
        fields_by_column(schema_of(*names))


def test_field_that_is_not_asked_for_is_in_nobodys_way():
    assert fields_by_column(schema_of("heat", "HEAT"), ["HEAT"]) == {"HEAT": "HEAT"}
    with pytest.raises(InvalidRequestError, match="would both be the column"):
        fields_by_column(schema_of("key", "Key"), ["value_key", "value_Key"])


def test_columns_come_in_the_order_asked_for():
    columns = fields_by_column(schema_of("a", "key", "c"), ["c", "value_key"])
    assert list(columns.items()) == [("c", "c"), ("value_key", "key")]
    with pytest.raises(InvalidRequestError, match=r"no key, d among the columns of a\.R"):
        fields_by_column(schema_of("a", "key", "c"), ["c", "key", "d"])


def test_all_columns_of_the_source_are_known():
    assert set(known_columns()) <= set(OWN_COLUMNS)
