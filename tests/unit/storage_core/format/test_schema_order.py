"""Schemas of several shards in one order that contradicts none of theirs."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all
from tests.unit.storage_core.strategies import few


def entry(number):
    return SchemaEntry(0, b"%d" % number, f'"{number}"')


def ordered(*orders):
    merged = in_order_of_all([entry(number) for number in order] for order in orders)
    return [int(one.fingerprint) for one in merged]


def test_shard_that_saw_both_decides_for_those_that_saw_one():
    assert ordered([2], [1, 2], [1]) == [1, 2]
    assert ordered([3, 4], [2], [1, 2, 3]) == [1, 2, 3, 4]


def test_who_has_more_before_him_is_later_where_no_shard_tells():
    assert ordered([1, 2, 3], [9]) == [1, 9, 2, 3]


def test_schemas_of_one_shard_and_of_none_stay_as_they_are():
    assert ordered([3, 1, 2]) == [3, 1, 2]
    assert ordered() == ordered([], []) == []


def test_shards_that_contradict_each_other_leave_all_as_they_were_named():
    assert ordered([2, 1], [1, 2], [3]) == [2, 1, 3]


@few
@given(st.lists(st.sets(st.integers(0, 20), max_size=8), max_size=6))
def test_no_shards_order_is_contradicted_and_each_is_there_once(shards):
    orders = [sorted(shard) for shard in shards]
    merged = ordered(*orders)
    assert sorted(merged) == sorted(set().union(*shards))
    for order in orders:
        for before, after in combinations(order, 2):
            assert merged.index(before) < merged.index(after)
