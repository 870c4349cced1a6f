"""Schemas on disk: they come back, and changed bytes are no schema."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.errors import CorruptionError
from storage_core.format.keys import INT32_MAX, INT32_MIN
from storage_core.format.schema_entry import (
    SchemaEntry,
    decode_schema,
    decode_schema_key,
    decode_schema_number,
    encode_schema,
    encode_schema_number,
    schema_key,
    schema_number_key,
)
from tests.unit.storage_core.strategies import few

entries = st.builds(
    SchemaEntry,
    st.integers(INT32_MIN, INT32_MAX),
    st.binary(min_size=1, max_size=64),
    st.text(st.characters(codec="utf-8")),
)


@few
@given(entries)
def test_schema_comes_back(entry):
    assert decode_schema(encode_schema(entry)) == entry


@few
@given(entries, st.data())
def test_changed_bytes_are_no_schema(entry, data):
    encoded = encode_schema(entry)
    position = data.draw(st.integers(0, len(encoded) - 1))
    changed = (
        encoded[:position]
        + bytes([encoded[position] ^ data.draw(st.integers(1, 255))])
        + encoded[position + 1 :]
    )
    for damaged in (changed, encoded[:position]):
        with pytest.raises(CorruptionError, match="do not match their checksum"):
            decode_schema(damaged)


@few
@given(st.integers(0, INT32_MAX))
def test_number_comes_back_from_its_key_and_value(number):
    assert decode_schema_key(schema_key(number)) == number
    assert decode_schema_number(encode_schema_number(number)) == number


def test_other_keys_and_values_are_no_numbers():
    assert decode_schema_key(schema_number_key(1, b"f")) is None
    assert decode_schema_key(b"s\0\0") is None
    assert decode_schema_number(b"\0") is None


@few
@given(entries, entries)
def test_key_of_a_schema_is_its_own(entry, other):
    keys = {schema_number_key(*each.identity) for each in (entry, other)}
    assert len(keys) == len({entry.identity, other.identity})
