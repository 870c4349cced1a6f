"""A block of one plain row has the bytes that Arrow would write."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.block import block_schema
from storage_core.format.plain_row import encode_plain_row

SECONDARIES = st.integers(-(2**31), 2**31 - 1)
PRIMARIES = st.integers(-(2**63), 2**63 - 1)
ROW_SCHEMA = block_schema(0)


def arrow_message(secondary: int, primary: int, payload: bytes) -> bytes:
    row = {"secondary": secondary, "primary": primary, "payload": payload}
    return pa.RecordBatch.from_pylist([row], schema=ROW_SCHEMA).serialize().to_pybytes()


@pytest.mark.parametrize("size", [*range(66), 255, 256, 4095, 4096, 100_000])
def test_message_is_what_arrow_writes_for_any_size(size):
    payload = bytes(index % 251 for index in range(size))
    message = encode_plain_row(ROW_SCHEMA, -7, 2**40, pa.array([payload], pa.binary()))
    assert message == arrow_message(-7, 2**40, payload)


@given(SECONDARIES, PRIMARIES, st.binary(max_size=40))
def test_message_is_what_arrow_writes_for_any_numbers(secondary, primary, payload):
    message = encode_plain_row(ROW_SCHEMA, secondary, primary, pa.array([payload], pa.binary()))
    assert message == arrow_message(secondary, primary, payload)


def test_row_out_of_the_middle_of_an_array_is_the_one_written():
    column = pa.array([b"before", b"this", b"after"], pa.binary()).slice(1, 1)
    assert encode_plain_row(ROW_SCHEMA, 1, 2, column) == arrow_message(1, 2, b"this")
