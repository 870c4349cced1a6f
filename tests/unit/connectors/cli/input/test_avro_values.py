"""Records written by a registered schema, and records spoilt on purpose."""

import json

import pyarrow as pa
import pytest

from connectors.cli.input.avro_values import as_avro, corrupt_some
from connectors.cli.input.record_lines import Outgoing
from connectors.registry import RegisteredSchema
from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, decode_batch

_PLACE = {"type": "record", "name": "a.Place", "fields": [{"name": "room", "type": "string"}]}
_REPORT = {
    "type": "record",
    "name": "a.Report",
    "fields": [{"name": "device", "type": "int"}, {"name": "place", "type": "a.Place"}],
}
_SCHEMA = RegisteredSchema(258, "reports-value", 1, json.dumps(_REPORT), (json.dumps(_PLACE),))
_VALUE = {"device": 7, "place": {"room": "cellar"}}


def _records(*values):
    return iter([Outgoing(b"key", value, 5, [("a", b"b")]) for value in values])


def test_values_are_framed_by_the_registrys_id_and_the_rest_stays():
    (record,) = as_avro(_records(json.dumps(_VALUE).encode()), _SCHEMA)
    assert record.value is not None
    assert record.value[:5] == b"\0\0\0\1\2"
    writer = AvroSchema.parse(_SCHEMA.text, _SCHEMA.references)
    assert decode_batch(pa.array([record.value[5:]]), writer).table.to_pylist() == [_VALUE]
    assert record == Outgoing(b"key", record.value, 5, [("a", b"b")])


def test_tombstone_stays_one():
    assert list(as_avro(_records(None), _SCHEMA)) == list(_records(None))


@pytest.mark.parametrize("value", [b"text", b"{}", b'{"device": 7, "place": "cellar"}', b""])
def test_value_that_does_not_fit_is_told_with_its_number(value):
    fitting = json.dumps(_VALUE).encode()
    with pytest.raises(InvalidRequestError, match=r"^record 2: "):
        list(as_avro(_records(fitting, value), _SCHEMA))


def test_share_of_the_values_is_spoilt_the_same_by_the_same_seed():
    values = [b"\0\0\0\0\1" + bytes([number % 250]) * 9 for number in range(20_000)]
    spoilt = list(corrupt_some(_records(*values), 0.1, seed=3))
    assert spoilt == list(corrupt_some(_records(*values), 0.1, seed=3))
    bad = [
        (new.value, value) for new, value in zip(spoilt, values, strict=True) if new.value != value
    ]
    # The seed draws these numbers, always.
    assert len(bad) == pytest.approx(2000, rel=0.1)
    cut = [new for new, value in bad if new == value[:-3]]
    assert len(cut) == pytest.approx(1000, rel=0.1)
    assert {new for new, value in bad if new != value[:-3]} == {b"no schema wrote this"}
