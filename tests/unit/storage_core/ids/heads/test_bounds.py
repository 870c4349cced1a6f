"""Bounds: rows are judged alike with the heads that they leave out and with all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.ids.heads.bounds import PrimaryBounds
from storage_core.ids.heads.grouping import group
from storage_core.ids.heads.table import Heads, HeadTable, heads_after
from storage_core.write.states import StateRules, judge
from tests.unit.storage_core.ids.heads.test_table import dict_of
from tests.unit.storage_core.strategies import few, int32_array, int32s, int64_array, int64s

ids_seldom_alike = st.one_of(st.integers(-5, 40), int32s)
primaries_near = st.one_of(st.integers(-9, 30), int64s)
batches = st.lists(
    st.tuples(
        st.lists(st.tuples(primaries_near, ids_seldom_alike), min_size=1, max_size=30),
        st.booleans(),
        st.builds(
            StateRules,
            st.sampled_from([INT64_MIN, 0, 5]),
            st.sampled_from([20, INT64_MAX]),
            st.integers(0, 3),
        ),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=6,
)


@few
@given(batches, st.sampled_from([1, 4, 2**18]))
def test_rows_are_judged_as_with_all_heads(parts, bounds_most):
    table, bounds, address = HeadTable(), PrimaryBounds(bounds_most=bounds_most), 100
    for rows, is_sorted, rules, requested in parts:
        primaries = int64_array([primary for primary, _ in (sorted(rows) if is_sorted else rows)])
        groups = group(int32_array([secondary for _, secondary in rows]))
        addresses = np.arange(address, address + len(rows))
        with_all, _ = table.find(groups.ids)
        undecided = bounds.undecided(groups, primaries, rules.floor, rules.ahead_limit)
        without = Heads.none_for(groups.ids)
        without.values[undecided] = with_all.values[undecided]
        answers = []
        for before in (with_all, without):
            judged = judge(primaries, groups, before.primary, rules)
            after = heads_after(before, groups, judged, primaries, addresses)
            states = np.zeros(len(rows)) if judged.states is None else judged.states
            answers.append((states.tolist(), judged.absorbed, dict_of(after)))
            table.put(after)
            bounds.raise_to(after.ids, after.primary)
        assert answers[0] == answers[1]
        bounds.note_asked(requested)
        address += len(rows)


def test_rows_in_order_of_time_need_no_head_whatever_their_ids():
    bounds = bounds_after({1: 10, 2: 20})
    groups = group(int32_array([1, 2, 3]))
    assert not bounds.undecided(groups, int64_array([20, 20, 21]), INT64_MIN, INT64_MAX).any()


def bounds_after(heads: dict[int, int], most: int = INT64_MIN, requested: int = 0) -> PrimaryBounds:
    """Return bounds that have seen heads, once so many were asked for."""
    bounds = PrimaryBounds(most)
    bounds.note_asked(requested)
    bounds.raise_to(int32_array(list(heads)), int64_array(list(heads.values())))
    return bounds


def test_fine_bounds_tell_ids_apart():
    bounds = bounds_after({1: 10, 2: 20}, requested=1000)
    groups = group(int32_array([1, 2, 3]))
    undecided = bounds.undecided(groups, int64_array([11, 19, 5]), INT64_MIN, INT64_MAX)
    assert undecided.tolist() == [False, True, False]


@pytest.mark.parametrize(("least", "largest"), [(12, INT64_MAX), (INT64_MIN, 10)])
def test_row_that_moves_no_head_needs_the_head_that_stays(least, largest):
    bounds = bounds_after({1: 5})
    groups = group(int32_array([1]))
    assert bounds.undecided(groups, int64_array([11]), least, largest).all()


def test_bounds_that_become_finer_forget_nothing():
    bounds = bounds_after({one: one for one in range(500)})
    bounds.note_asked(300)
    groups = group(int32_array(range(500)))
    assert bounds.undecided(groups, int64_array(range(-1, 499)), INT64_MIN, INT64_MAX).all()


def test_bounds_are_no_more_than_so_many_however_many_were_asked_for():
    bounds = PrimaryBounds(bounds_most=64)
    bounds.note_asked(10**9)
    assert len(bounds) == 64
