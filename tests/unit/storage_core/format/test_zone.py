"""Zones: a summary never says no where its block holds a row."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError
from storage_core.format.keys import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from storage_core.format.zone import (
    Zone,
    decode_secondaries,
    decode_zone,
    encode_secondaries,
    encode_zone,
    primary_spans,
    state_counts,
)
from tests.unit.storage_core.strategies import (
    few,
    int32_array,
    int32s,
    int64_array,
    int64s,
    many,
    states_of,
)

id_sets = st.one_of(
    st.lists(int32s, min_size=1, max_size=40),
    st.lists(st.integers(-20, 20), min_size=1, max_size=40),
    st.integers(INT32_MIN, INT32_MAX - 4000).flatmap(
        lambda least: st.lists(st.integers(least, least + 4000), min_size=1, max_size=40)
    ),
).map(int32_array)
counts = st.integers(0, 2**32 - 1)

A_ZONE = Zone(5, 5, 9, -1, 1, INT64_MAX, INT64_MIN, 7, 8, 9, 5, 0, 0, 0, 0, b"")


def spanning(
    normal_min: int, normal_max: int, out_of_order_min: int, out_of_order_max: int
) -> Zone:
    return replace(
        A_ZONE,
        primary_min=normal_min,
        primary_max=normal_max,
        out_of_order_min=out_of_order_min,
        out_of_order_max=out_of_order_max,
    )


@few
@given(
    st.lists(st.integers(0, INT64_MAX - 1), min_size=3, max_size=3).map(sorted),
    st.lists(int64s, min_size=5, max_size=5),
    st.integers(0, 2**64 - 1),
    st.lists(counts, min_size=6, max_size=6),
    id_sets,
)
def test_zone_comes_back(places, spans, checksum, numbers, ids):
    fields = (*places, *spans, checksum, *numbers)
    zone = Zone(*fields, sections=encode_secondaries(ids))  # type: ignore[misc]  # fifteen integers
    assert decode_zone(zone.first, encode_zone(zone), 0) == zone


@few
@given(id_sets)
def test_set_of_secondaries_comes_back_sorted(ids):
    decoded = decode_secondaries(encode_secondaries(ids))
    assert decoded is not None
    assert decoded.tolist() == sorted(set(ids.tolist()))


@many
@given(id_sets, st.lists(int32s, min_size=1, max_size=5))
def test_zone_knows_exactly_which_ids_its_block_holds(ids, requested):
    zone = replace(A_ZONE, sections=encode_secondaries(ids))
    for some in (requested, [int(ids[0])], [*requested, int(ids[-1])]):
        expected = not set(some).isdisjoint(ids.tolist())
        assert zone.may_hold_ids(int32_array(some)) == expected


@pytest.mark.parametrize(
    ("ids", "tag"),
    [
        (range(-300, 300), 1),
        ([INT32_MIN, INT32_MAX], 2),
        ([INT32_MIN, *range(-5, 5)], 2),
        (range(INT32_MIN, INT32_MIN + 64), 1),
    ],
)
def test_smaller_of_bitmap_and_deltas_is_kept(ids, tag):
    assert encode_secondaries(int32_array(list(ids)))[0] == tag


@few
@given(id_sets)
def test_neither_encoding_would_have_been_much_smaller(ids):
    span = int(ids.max()) - int(ids.min()) + 1
    sparse = 10 + 4 * len(set(ids.tolist()))
    assert len(encode_secondaries(ids)) <= min(9 + span // 8 + 8, sparse)


def test_sections_of_unknown_kind_are_skipped():
    unknown = b"\x63\x03\x00\x00\x00abc"
    zone = replace(A_ZONE, sections=unknown + encode_secondaries(int32_array([4])))
    assert zone.may_hold_ids(int32_array([4]))
    assert not zone.may_hold_ids(int32_array([5]))
    assert decode_secondaries(zone.sections) is not None


def test_zone_without_a_set_may_hold_any_id():
    assert A_ZONE.may_hold_ids(int32_array([12345]))
    assert decode_secondaries(b"") is None


@many
@given(st.data(), st.lists(int64s, min_size=1, max_size=20), int64s, int64s)
def test_spans_never_deny_a_row(data, primaries, start, end):
    states = data.draw(states_of(len(primaries)))
    values = int64_array(primaries)
    zone = spanning(*primary_spans(values, states))
    inside = (values >= start) & (values <= end)
    row_states = np.zeros(len(values)) if states is None else states
    assert zone.may_hold_normal(start, end) or not (inside & (row_states == 0)).any()
    assert zone.may_hold_out_of_order(start, end) or not (inside & (row_states % 3 > 0)).any()


def test_empty_span_holds_nothing_unless_all_is_asked():
    assert not A_ZONE.may_hold_out_of_order(INT64_MIN, INT64_MAX - 1)
    assert not A_ZONE.may_hold_out_of_order(INT64_MIN + 1, INT64_MAX)
    states = np.full(2, 3, dtype=np.uint8)
    assert primary_spans(int64_array([1, 2]), states) == (INT64_MAX, INT64_MIN) * 2


@few
@given(st.integers(1, 20).flatmap(states_of))
def test_states_are_counted(states):
    values = [] if states is None else states.tolist()
    assert state_counts(states) == (values.count(1), values.count(2), values.count(3))


@pytest.mark.parametrize(
    ("address", "data"),
    [
        (6, encode_zone(A_ZONE)),
        (5, encode_zone(A_ZONE)[:95]),
        (5, b""),
        (5, encode_zone(replace(A_ZONE, last=4))),
        (5, encode_zone(replace(A_ZONE, previous_end=6))),
        (5, encode_zone(replace(A_ZONE, previous_end=-1))),
    ],
    ids=["other key", "cut", "empty", "ends before it begins", "chain ahead", "chain negative"],
)
def test_bytes_that_are_no_zone_of_this_key_are_refused(address, data):
    with pytest.raises(CorruptionError, match=rf"shard 2, addresses \[{address}, {address + 1}\)"):
        decode_zone(address, data, 2)


def test_head_of_a_zone_has_the_documented_length():
    assert len(encode_zone(A_ZONE)) == 96
