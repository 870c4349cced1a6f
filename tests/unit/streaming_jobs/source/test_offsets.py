"""Offsets: written one way, read back, and a batch's range does not hang on a moving start."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import InvalidRequestError, UnsupportedFormatError
from streaming_jobs.source.offsets import SourceOffset, batch_ranges, decode_offset, encode_offset

ENDS = st.dictionaries(st.integers(0, 300), st.integers(0, 2**63 - 1), min_size=1)


@given(ENDS, st.none() | ENDS)
def test_decode_is_the_inverse_of_encode(ends, birth):
    offset = SourceOffset(ends, "abc", {shard: f"l{shard}" for shard in ends}, birth)
    text = json.dumps(encode_offset("s", offset))
    assert decode_offset("s", json.loads(text)) == offset


@given(ENDS)
def test_equal_offsets_are_written_alike(ends):
    shuffled = dict(reversed(ends.items()))
    texts = {json.dumps(encode_offset("s", SourceOffset(one, "i", {}))) for one in (ends, shuffled)}
    assert len(texts) == 1


def test_offset_without_identity_is_taken():
    assert decode_offset("s", {"s": {"0": 5}}) == SourceOffset({0: 5})


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"other": {"0": 5}}, InvalidRequestError),
        ({"s": {"0": 5}, "t": {"0": 5}}, InvalidRequestError),
        ({"s": {"x": 5}}, InvalidRequestError),
        ({"s": 5}, InvalidRequestError),
        ({"s": {"0": 5}, "@": {"v": 1}}, InvalidRequestError),
        ({"s": {"0": 5}, "@": {"v": 2}}, UnsupportedFormatError),
    ],
)
def test_what_is_no_offset_is_refused(document, error):
    with pytest.raises(error):
        decode_offset("s", document)


def test_batch_after_a_start_without_birth_begins_at_the_ends_birth():
    end = SourceOffset({0: 20, 1: 9}, "i", {}, {0: 10, 1: 0})
    for moving in ({0: 10, 1: 0}, {0: 15, 1: 9}, {0: 99}):
        assert batch_ranges(SourceOffset(moving, "i", {}), end) == {0: (10, 20), 1: (0, 9)}


def test_batch_after_a_start_with_birth_begins_there():
    birth = {0: 10, 1: 3}
    start, end = (
        SourceOffset({0: 15}, "i", {}, {0: 10}),
        SourceOffset({0: 20, 1: 9}, "i", {}, birth),
    )
    assert batch_ranges(start, end) == {0: (15, 20), 1: (3, 9)}


def test_offsets_of_kafkas_own_source_can_be_gone_on_from():
    assert batch_ranges(SourceOffset({0: 5}), SourceOffset({0: 9, 1: 2})) == {
        0: (5, 9),
        1: (None, 2),
    }
