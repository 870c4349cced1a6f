"""Cutting: rows are cut near their targets, and each block stands beside its zone."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from storage_core import StreamOptions
from storage_core.engine.key_value import Batch
from storage_core.format.block import BlockPlace, decode_block
from storage_core.format.keys import FAMILY_DEFAULT, FAMILY_LOG, log_key, zone_key
from storage_core.format.zone import decode_zone
from storage_core.write.cutting import cut_points, put_block
from tests.unit.storage_core.strategies import addresses_of, few, int32_array, rows, states_of

row_sizes = st.lists(st.integers(0, 50), min_size=1, max_size=200).map(int32_array)


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
