"""Values written as Avro bodies, and read back."""

import json

import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, JsonEncoder, decode_batch


def _schema(**fields):
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    columns.append({"name": "note", "type": ["null", "string"], "default": None})
    return AvroSchema.parse(json.dumps({"type": "record", "name": "a.Report", "fields": columns}))


def test_what_is_written_is_read_back():
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    schema = _schema(device="int", at=moment, heat="double", kind=kind)
    value = {"device": 7, "at": 1_700_000_000_000, "heat": 21.5, "kind": "B"}
    body = JsonEncoder(schema).encode(value)
    (row,) = decode_batch(pa.array([body]), schema).table.to_pylist()
    row["at"] = int(row["at"].timestamp() * 1000)
    assert row == {**value, "note": None}


@pytest.mark.parametrize(
    "value",
    [
        {"device": "seven"},
        {"device": 2**40},
        {},
        {"device": 7, "gadget": 8},
        {"device": 7, "note": 9},
        "seven",
        None,
        [7],
    ],
)
def test_value_that_does_not_fit_is_refused_with_the_schemas_name(value):
    with pytest.raises(InvalidRequestError, match=r"does not fit schema a\.Report"):
        JsonEncoder(_schema(device="int")).encode(value)
