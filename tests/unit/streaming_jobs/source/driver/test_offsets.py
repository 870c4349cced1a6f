"""Offsets: written one way, read back, and a batch's range does not hang on a moving start."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import InvalidRequestError, UnsupportedFormatError
from streaming_jobs.source.driver.offsets import (
    SourceOffset,
    StreamOffset,
    batch_ranges,
    decode_offset,
    encode_offset,
)

ENDS = st.dictionaries(st.integers(0, 300), st.integers(0, 2**63 - 1), min_size=1)


NAMES = st.text("abcXYZ019._-", min_size=1, max_size=9)


@st.composite
def stream_offsets(draw):
    ends = draw(ENDS)
    lineages = {shard: f"l{shard}" for shard in ends}
    expired = draw(st.dictionaries(st.sampled_from(sorted(ends)), st.integers(1, 2**40)))
    return StreamOffset(ends, draw(NAMES), lineages, draw(st.none() | ENDS), expired)


STREAMS = st.dictionaries(NAMES, stream_offsets(), max_size=4)


@given(STREAMS, st.none() | NAMES)
def test_decode_is_the_inverse_of_encode(streams, schema):
    offset = SourceOffset(streams, schema)
    text = json.dumps(encode_offset(offset))
    assert decode_offset(json.loads(text)) == offset


@given(STREAMS)
def test_equal_offsets_are_written_alike(streams):
    shuffled = {
        name: replace(streams[name], ends=dict(reversed(streams[name].ends.items())))
        for name in reversed(streams)
    }
    texts = {json.dumps(encode_offset(SourceOffset(one))) for one in (streams, shuffled)}
    assert len(texts) == 1


def test_offset_of_one_stream_is_written_as_it_ever_was():
    offset = StreamOffset({1: 9, 0: 5}, "i", {0: "a", 1: "b"}, {0: 0, 1: 2}, {0: 0, 1: 7})
    assert json.dumps(encode_offset(SourceOffset({"s": offset}))) == (
        '{"s": {"0": 5, "1": 9}, "@": {"v": 1, "incarnation": "i", "lineage": {"0": "a", "1": "b"},'
        ' "birth": {"0": 0, "1": 2}, "expired": {"1": 7}, "schema": null}}'
    )


def test_offset_of_several_streams_tells_of_each():
    offset, other = StreamOffset({0: 5}, "i", {0: "a"}), StreamOffset({0: 6}, "j", {0: "b"}, {0: 2})
    assert json.dumps(encode_offset(SourceOffset({"t": other, "s": offset}))) == (
        '{"s": {"0": 5}, "t": {"0": 6}, "@": {"v": 2, "streams": {'
        '"s": {"incarnation": "i", "lineage": {"0": "a"}}, '
        '"t": {"incarnation": "j", "lineage": {"0": "b"}, "birth": {"0": 2}}}, "schema": null}}'
    )


def test_offset_without_identity_is_taken():
    both = {"s": {"0": 5}, "t": {"1": 6}}
    assert decode_offset({"s": {"0": 5}}).streams == {"s": StreamOffset({0: 5})}
    assert decode_offset(both).streams["t"] == StreamOffset({1: 6})


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"s": {"0": 5}, "t": {"0": 5}, "@": {"v": 1}}, InvalidRequestError),
        ({"s": {"0": 5}, "t": {"0": 5}, "@": {"v": 2, "streams": {"s": {}}}}, InvalidRequestError),
        ({"s": {"0": 5}, "@": {"v": 2}}, InvalidRequestError),
        ({"s": {"x": 5}}, InvalidRequestError),
        ({"s": 5}, InvalidRequestError),
        (5, InvalidRequestError),
        ([{"s": 1}], InvalidRequestError),
        (None, InvalidRequestError),
        ({"logOffset": 0}, InvalidRequestError),
        ({"s": {"0": 5}, "@": 5}, InvalidRequestError),
        ({"s": {"0": 5}, "@": {"v": 1}}, InvalidRequestError),
        ({"s": {"0": 5}, "@": {"v": 3}}, UnsupportedFormatError),
    ],
)
def test_what_is_no_offset_is_refused(document, error):
    with pytest.raises(error):
        decode_offset(document)


def test_batch_after_a_start_without_birth_begins_at_the_ends_birth():
    end = StreamOffset({0: 20, 1: 9}, "i", {}, {0: 10, 1: 0})
    for moving in ({0: 10, 1: 0}, {0: 15, 1: 9}, {0: 99}):
        assert batch_ranges(StreamOffset(moving, "i", {}), end) == {0: (10, 20), 1: (0, 9)}


def test_batch_whose_start_has_not_the_stream_begins_at_the_ends_birth():
    end = StreamOffset({0: 20, 1: 9}, "i", {}, {0: 10, 1: 0})
    assert batch_ranges(None, end) == {0: (10, 20), 1: (0, 9)}


def test_batch_after_a_start_with_birth_begins_there():
    birth = {0: 10, 1: 3}
    start, end = (
        StreamOffset({0: 15}, "i", {}, {0: 10}),
        StreamOffset({0: 20, 1: 9}, "i", {}, birth),
    )
    assert batch_ranges(start, end) == {0: (15, 20), 1: (3, 9)}


def test_offsets_of_kafkas_own_source_can_be_gone_on_from():
    assert batch_ranges(StreamOffset({0: 5}), StreamOffset({0: 9, 1: 2})) == {
        0: (5, 9),
        1: (None, 2),
    }
