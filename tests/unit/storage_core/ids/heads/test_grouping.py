"""Grouping: the distinct ids of rows, however they lie."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage_core.ids.heads.grouping import group
from tests.unit.storage_core.strategies import few, int32_array, int32s


@few
@given(st.lists(st.one_of(int32s, st.integers(0, 50)), min_size=1, max_size=80))
def test_groups_are_the_distinct_ids_in_order(secondaries):
    groups = group(int32_array(secondaries))
    assert groups.ids.tolist() == sorted(set(secondaries))
    assert groups.ids[groups.codes].tolist() == secondaries
    assert groups.ids.dtype == np.int32
