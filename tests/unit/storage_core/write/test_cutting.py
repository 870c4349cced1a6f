"""Cutting: rows are cut near their targets, and each block stands beside its zone."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from storage_core.write.cutting import cut_points
from tests.unit.storage_core.strategies import few, int32_array

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


def test_rows_too_uneven_for_an_even_cut_fill_block_after_block():
    assert cut_points(int32_array([1, 1, 1, 1, 70, 70, 70]), 100, 100) == [0, 6, 7]
