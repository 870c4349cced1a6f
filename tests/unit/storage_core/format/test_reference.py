"""References: what stands in the place of a block that is in a segment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError
from storage_core.format.block import HEADER_BYTES, REFERENCE_BYTES, is_reference
from storage_core.format.reference import (
    Reference,
    decode_reference,
    encode_reference,
)

numbers = st.integers(0, 2**64 - 1)


@given(numbers, numbers, numbers)
def test_reference_is_what_was_written(segment, offset, size):
    data = encode_reference(Reference(segment, offset, size))
    assert is_reference(data)
    assert decode_reference(data) == Reference(segment, offset, size)


def test_no_block_is_as_short_as_a_reference():
    assert HEADER_BYTES > REFERENCE_BYTES
    assert not is_reference(bytes(HEADER_BYTES))


@pytest.mark.parametrize("byte", range(REFERENCE_BYTES))
def test_reference_of_which_a_bit_is_flipped_is_refused(byte):
    data = bytearray(encode_reference(Reference(1, 2, 3)))
    data[byte] ^= 1
    with pytest.raises(CorruptionError, match="reference"):
        decode_reference(bytes(data))


def test_reference_of_another_format_is_refused(monkeypatch):
    monkeypatch.setattr("storage_core.format.reference._FORMAT", 2)
    data = encode_reference(Reference(1, 2, 3))
    monkeypatch.undo()
    with pytest.raises(CorruptionError, match="format"):
        decode_reference(data)
