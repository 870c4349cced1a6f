"""A slot of the marker comes back whole or not at all."""

from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.marker_slot import MarkerState, decode_slot, encode_slot
from tests.unit.storage_core.strategies import addresses_one, few

LINEAGE = bytes(range(16))
states = st.builds(
    MarkerState,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    addresses_one,
    st.binary(min_size=16, max_size=16),
)


@few
@given(states)
def test_slot_comes_back(state):
    assert decode_slot(encode_slot(state)) == state


@few
@given(st.data(), states)
def test_slot_with_a_flipped_bit_is_nothing(data, state):
    slot = bytearray(encode_slot(state))
    bit = data.draw(st.integers(0, len(slot) * 8 - 1))
    slot[bit // 8] ^= 1 << bit % 8
    assert decode_slot(bytes(slot)) is None


@few
@given(st.data(), states)
def test_slot_that_is_cut_is_nothing(data, state):
    slot = encode_slot(state)
    assert decode_slot(slot[: data.draw(st.integers(0, len(slot) - 1))]) is None


def test_empty_slot_is_nothing():
    assert decode_slot(bytes(100)) is None


def test_negative_committed_is_nothing():
    assert decode_slot(encode_slot(MarkerState(1, 1, -1, LINEAGE))) is None
