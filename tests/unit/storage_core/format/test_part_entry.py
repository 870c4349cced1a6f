"""Entries of parts come back as they were, or are told as damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry, decode_part, encode_part, part_key

numbers = st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(0, 2**64 - 1)
digests = st.binary(min_size=16, max_size=16)
entries = st.builds(
    PartEntry,
    first=st.integers(0, 2**63 - 1),
    number=st.integers(0, 2**32 - 1),
    last=numbers,
    primary_min=numbers,
    primary_max=numbers,
    rows=sizes,
    size=sizes,
    sealed_at_ms=numbers,
    level=st.integers(0, 255),
    is_out_of_order=st.booleans(),
    digest=digests,
    kind=st.text(max_size=5),
    footer_bytes=st.integers(0, 2**32 - 1),
    footer_digest=digests,
)


@given(entries)
def test_entry_comes_back_as_it_was(part):
    assert decode_part(part_key(part.first, part.number), encode_part(part)) == part


@given(entries, st.data())
def test_entry_with_another_byte_is_told(part, data):
    entry = bytearray(encode_part(part))
    entry[data.draw(st.integers(0, len(entry) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptionError, match="damaged"):
        decode_part(part_key(part.first, part.number), bytes(entry))
