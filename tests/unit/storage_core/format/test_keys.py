"""Keys: bytes sort as their meaning does, and give back what they were made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format import keys
from tests.unit.storage_core.strategies import (
    addresses_one,
    few,
    int32_array,
    int32s,
    int64_array,
    int64s,
)

late_places = st.tuples(int64s, int32s, int64s, addresses_one)


@few
@given(int64s)
def test_int64_comes_back(value):
    assert keys.decode_int64(keys.encode_int64(value)) == value


@few
@given(int32s)
def test_int32_comes_back(value):
    assert keys.decode_int32(keys.encode_int32(value)) == value


@few
@given(int64s, int64s)
def test_int64_sorts_as_its_bytes(a, b):
    assert (a < b) == (keys.encode_int64(a) < keys.encode_int64(b))


@few
@given(int32s, int32s)
def test_int32_sorts_as_its_bytes(a, b):
    assert (a < b) == (keys.encode_int32(a) < keys.encode_int32(b))


@few
@given(addresses_one, addresses_one)
def test_blocks_and_zones_sort_by_address(a, b):
    assert (a < b) == (keys.log_key(a) < keys.log_key(b)) == (keys.zone_key(a) < keys.zone_key(b))


@few
@given(addresses_one)
def test_address_of_a_block_comes_back(address):
    assert keys.decode_log_key(keys.log_key(address)) == address
    assert keys.decode_log_key(keys.zone_key(address)[1:]) == address


@few
@given(int64s, int64s)
def test_windows_come_back_and_sort(a, b):
    assert keys.decode_window_key(keys.window_key(a)) == a
    assert (a < b) == (keys.window_key(a) < keys.window_key(b))


@few
@given(int32s, int32s)
def test_heads_come_back_and_sort(a, b):
    assert keys.decode_head_key(keys.head_key(a)) == a
    assert (a < b) == (keys.head_key(a) < keys.head_key(b))


@few
@given(late_places, late_places)
def test_late_records_sort_by_window_id_primary_address(a, b):
    assert (a < b) == (keys.late_key(*a) < keys.late_key(*b))


@few
@given(st.lists(late_places, min_size=1))
def test_late_keys_of_many_are_the_keys_of_each(places):
    windows, ids, primaries, addresses = zip(*places, strict=True)
    many = keys.encode_late_keys(
        int64_array(windows), int32_array(ids), int64_array(primaries), int64_array(addresses)
    )
    assert many == [keys.late_key(*place) for place in places]


@few
@given(st.lists(late_places, min_size=1))
def test_late_keys_come_back(places):
    decoded = keys.decode_late_keys([keys.late_key(*place) for place in places])
    assert list(zip(*(column.tolist() for column in decoded), strict=True)) == [
        place[1:] for place in places
    ]


@few
@given(late_places)
def test_late_key_lies_in_its_window_only(place):
    key, window = keys.late_key(*place), place[0]
    assert keys.late_window_key(window) <= key <= keys.late_window_key(window) + b"\xff" * 21
    assert keys.decode_window_key(key[:9]) == window


PREFIXES = [
    keys.PREFIX_ZONE,
    keys.PREFIX_LATE,
    keys.PREFIX_WINDOW,
    keys.PREFIX_HEAD,
    keys.PREFIX_META,
]


@few
@given(st.sampled_from(PREFIXES), st.binary(max_size=30))
def test_end_of_a_prefix_lies_above_its_keys_and_below_the_next_prefix(prefix, rest):
    end = keys.prefix_end(prefix)
    assert prefix + rest < end
    assert not any(prefix < other < end for other in PREFIXES)


def test_no_prefix_serves_two_kinds_of_key():
    assert len(set(PREFIXES)) == len(PREFIXES)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (keys.log_key(258), "0000000000000102"),
        (keys.zone_key(258), "7a0000000000000102"),
        (keys.window_key(-1), "777fffffffffffffff"),
        (keys.head_key(1), "6880000001"),
        (keys.meta_key("next"), "6d6e657874"),
        (keys.late_key(0, -1, 1, 2), "6c80000000000000007fffffff80000000000000010000000000000002"),
    ],
)
def test_bytes_of_a_key_are_the_format(key, text):
    assert key.hex() == text
