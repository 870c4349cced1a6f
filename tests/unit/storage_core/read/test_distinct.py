"""Distinct values: each once, in order, however they come."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from storage_core.read.distinct import distinct_in_order
from tests.unit.storage_core.strategies import few

keys = st.lists(st.lists(st.none() | st.binary(max_size=3), max_size=9), max_size=6)
ids = st.lists(st.lists(st.integers(-9, 9), max_size=9), max_size=6)


def columns_of(values, kind):
    return [pa.array(some, kind) for some in values]


@few
@given(keys)
def test_keys_come_once_each_and_null_first(values):
    expected = {one for some in values for one in some}
    values_found = list(distinct_in_order(columns_of(values, pa.binary())))
    assert values_found == sorted(expected, key=lambda one: (one is not None, one or b""))


@few
@given(ids)
def test_ids_come_once_each(values):
    expected = {one for some in values for one in some}
    assert list(distinct_in_order(columns_of(values, pa.int32()))) == sorted(expected)


def test_more_than_are_held_at_once_come_once_each():
    many = range(300_000)
    columns = [pa.array(many, pa.int32()), pa.array(range(299_999, 600_000), pa.int32())]
    assert list(distinct_in_order(columns)) == [*range(600_000)]
