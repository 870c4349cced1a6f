"""Reductions of one value are those of many."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage_core.ground.reductions import is_all, largest, least, total

COLUMNS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5)


@given(COLUMNS)
def test_reductions_are_those_of_plain_lists(values):
    column = np.array(values)
    found = (least(column), largest(column), total(column))
    assert found == (min(values), max(values), sum(values))


@given(st.lists(st.booleans(), max_size=3))
def test_all_flags_are_set_when_none_is_unset(flags):
    assert is_all(np.array(flags, dtype=np.bool_)) == all(flags)


def test_sum_of_nothing_is_nothing():
    assert total(np.empty(0, dtype=np.int64)) == 0
