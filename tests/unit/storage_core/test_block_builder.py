"""Building: a record is checked before it counts, rows are cut near their targets."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import InvalidRequestError, StreamOptions
from storage_core.format.block import BlockPlace, decode_block
from storage_core.format.keys import FAMILY_DEFAULT, FAMILY_LOG, log_key, zone_key
from storage_core.format.zone import decode_zone
from storage_core.store.key_value import Batch
from storage_core.write.block_builder import RecordBuilder, cut_points, put_block
from tests.unit.storage_core.strategies import (
    addresses_of,
    few,
    int32_array,
    int32s,
    int64s,
    payloads,
    rows,
    states_of,
    uint16s,
)

row_sizes = st.lists(st.integers(0, 50), min_size=1, max_size=200).map(int32_array)


def added(*record: Any, payload_bytes_max: int = 12) -> dict[str, object]:
    """Return the one row that a builder makes of a record."""
    builder = RecordBuilder(StreamOptions(payload_bytes_max=payload_bytes_max))
    builder.add(*record)
    rows_built = builder.rows()
    return {
        "primary": rows_built.primary.tolist(),
        "secondary": rows_built.secondary.tolist(),
        "payload": rows_built.payload.to_pylist(),
        "version": [0] if rows_built.version is None else rows_built.version.tolist(),
    }


@few
@given(int64s, int32s, payloads, uint16s)
def test_record_within_its_types_is_taken_as_it_is(primary, secondary, payload, version):
    assert added(primary, secondary, payload, version) == {
        "primary": [primary],
        "secondary": [secondary],
        "payload": [payload],
        "version": [version],
    }


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ((2**63, 0, b"", 0), "primary"),
        ((-(2**63) - 1, 0, b"", 0), "primary"),
        ((1.0, 0, b"", 0), "primary"),
        (("1", 0, b"", 0), "primary"),
        ((None, 0, b"", 0), "primary"),
        ((0, 2**31, b"", 0), "secondary"),
        ((0, -(2**31) - 1, b"", 0), "secondary"),
        ((0, 0, "text", 0), "payload"),
        ((0, 0, 5, 0), "payload"),
        ((0, 0, b"12345", 0), "payload_bytes_max is 4"),
        ((0, 0, bytearray(5), 0), "payload_bytes_max is 4"),
        ((0, 0, b"", -1), "version"),
        ((0, 0, b"", 2**16), "version"),
    ],
)
def test_record_that_does_not_fit_is_refused_by_name(record, named):
    with pytest.raises(InvalidRequestError, match=named):
        added(*record, payload_bytes_max=4)


def test_integers_of_numpy_are_taken_like_plain_ones():
    assert added(np.int64(1), np.int32(2), None, np.uint16(3)) == added(1, 2, None, 3)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_payload_is_copied_out_of_a_buffer(kind):
    buffer = bytearray(b"abcd")
    builder = RecordBuilder(StreamOptions())
    builder.add(0, 0, kind(buffer), 0)
    buffer[:] = b"zzzz"
    assert builder.rows().payload.to_pylist() == [b"abcd"]


def test_changed_limits_hold_for_the_next_record():
    builder = RecordBuilder(StreamOptions())
    builder.limit(StreamOptions(payload_bytes_max=1, block_records=1))
    assert builder.add(0, 0, b"a", 0)
    with pytest.raises(InvalidRequestError, match="payload_bytes_max is 1"):
        builder.add(0, 0, b"ab", 0)


@pytest.mark.parametrize(
    ("options", "fills_at"),
    [
        (StreamOptions(block_records=3), 3),
        (StreamOptions(block_bytes=10), 4),
        (StreamOptions(block_records=1), 1),
    ],
)
def test_block_is_full_at_its_records_or_bytes(options, fills_at):
    builder = RecordBuilder(options)
    assert [builder.add(0, 0, b"abc", 0) for _ in range(fills_at)] == [False] * (fills_at - 1) + [
        True
    ]


def test_tombstones_fill_a_block_by_their_number_only():
    builder = RecordBuilder(StreamOptions(block_records=100, block_bytes=1))
    assert not any(builder.add(0, 0, None, 0) for _ in range(99))


def test_refused_record_changes_nothing():
    builder = RecordBuilder(StreamOptions(block_bytes=4))
    builder.add(1, 1, b"abc", 0)
    with pytest.raises(InvalidRequestError):
        builder.add(1, 2**31, b"d", 0)
    assert len(builder) == 1
    assert builder.rows().payload.to_pylist() == [b"abc"]


def test_gathered_rows_stay_until_cleared():
    builder = RecordBuilder(StreamOptions())
    builder.add(1, 2, None, 3)
    assert len(builder.rows()) == len(builder.rows()) == 1
    builder.clear()
    assert len(builder) == 0


@few
@given(row_sizes, st.integers(1, 40), st.integers(1, 200))
def test_cuts_cover_all_rows_once_in_order(sizes, records_max, bytes_max):
    cuts = cut_points(sizes, records_max, bytes_max)
    assert (cuts[0], cuts[-1]) == (0, len(sizes))
    assert all(a < b for a, b in pairwise(cuts))


@few
@given(row_sizes, st.integers(1, 40), st.integers(1, 200))
def test_no_block_is_much_above_its_targets_but_for_one_row(sizes, records_max, bytes_max):
    cuts = cut_points(sizes, records_max, bytes_max)
    for first, last in pairwise(cuts):
        assert last - first <= records_max * 5 // 4
        assert int(sizes[first : last - 1].sum()) <= bytes_max * 3 // 2


@few
@given(st.integers(2, 500), st.integers(1, 40), st.integers(1, 10), st.integers(40, 200))
def test_rows_of_one_size_up_to_a_quarter_block_are_cut_evenly(count, records_max, size, bytes_max):
    cuts = cut_points(int32_array([size] * count), records_max, bytes_max)
    lengths = [last - first for first, last in pairwise(cuts)]
    assert max(lengths) - min(lengths) <= 1


def test_a_batch_leaves_no_small_rest():
    assert cut_points(int32_array([1] * 10), 8, 100) == [0, 10]
    assert cut_points(int32_array([1] * 11), 8, 100) == [0, 5, 11]
    assert cut_points(int32_array([10] * 13), 100, 100) == [0, 6, 13]


def test_rows_too_uneven_for_an_even_cut_fill_block_after_block():
    assert cut_points(int32_array([1, 1, 1, 1, 70, 70, 70]), 100, 100) == [0, 6, 7]


def test_rows_within_both_targets_stay_one_block():
    assert cut_points(int32_array([5, 5]), 2, 10) == [0, 2]


@few
@given(st.data(), rows())
def test_zone_put_beside_a_block_tells_its_rows(data, given_rows):
    count = len(given_rows)
    states, addresses = data.draw(states_of(count)), data.draw(addresses_of(count))
    batch, place, options = Batch(), BlockPlace(bytes(16), 0), StreamOptions(codec="lz4")
    put_block(
        batch, given_rows, states, addresses, place, previous_end=0, now_ms=1, options=options
    )
    first = int(addresses[0])
    (block_put, zone_put) = batch.puts
    assert block_put[:2] == (FAMILY_LOG, log_key(first))
    assert zone_put[:2] == (FAMILY_DEFAULT, zone_key(first))
    zone = decode_zone(first, zone_put[2], 0)
    block = decode_block(block_put[2], place, first, zone.checksum)
    assert (zone.count, zone.last, zone.block_bytes) == (count, block.last, len(block_put[2]))
    assert zone.tombstones == given_rows.payload.null_count
    assert zone.may_hold_ids(given_rows.secondary)
