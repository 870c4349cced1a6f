"""Heads come back from their bytes, in the order of their keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError
from storage_core.format.head import decode_head_values, decode_heads, encode_heads
from storage_core.format.keys import head_key
from tests.unit.storage_core.strategies import few, int32_array, int32s, int64_array, int64s

heads = st.dictionaries(int32s, st.tuples(int64s, int64s, int64s), max_size=20)


@few
@given(heads)
def test_heads_come_back(heads):
    values = int64_array(list(heads.values())).reshape(-1, 3)
    keys, stored = encode_heads(int32_array(list(heads)), values)
    assert keys == [head_key(secondary) for secondary in heads]
    ids, decoded = decode_heads(list(zip(keys, stored, strict=True)))
    assert dict(zip(ids.tolist(), map(tuple, decoded.tolist()), strict=True)) == heads
    assert decode_head_values(stored).tolist() == decoded.tolist()


@pytest.mark.parametrize("size", [0, 23, 25])
def test_value_of_another_length_is_no_head(size):
    with pytest.raises(CorruptionError, match="another length"):
        decode_head_values([bytes(size)])
    with pytest.raises(CorruptionError, match="another length"):
        decode_heads([(head_key(1), bytes(size))])
