"""Maps lose the entries whose key comes again, wherever they lie, and nothing else changes."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.parts.typed_columns import with_unique_keys

_ENTRIES = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=5)
_MAP = pa.map_(pa.string(), pa.int32())
_RECORD = pa.struct([pa.field("by", _MAP), pa.field("n", pa.int32())])


def once(entries: Any) -> Any:
    """Return entries without those whose key comes again, in the order of the last of each."""
    if entries is None:
        return None
    return [
        item
        for index, item in enumerate(entries)
        if item[0] not in [k for k, _ in entries[index + 1 :]]
    ]


@given(rows=st.lists(st.none() | _ENTRIES, max_size=8), skipped=st.integers(0, 3))
def test_map_keeps_the_last_entry_of_each_key(rows, skipped):
    result = with_unique_keys(pa.array(rows, _MAP).slice(skipped))
    result.validate(full=True)
    assert result.to_pylist() == [once(one) for one in rows[skipped:]]


@given(rows=st.lists(st.none() | st.lists(st.none() | _ENTRIES, max_size=3), max_size=5))
def test_maps_inside_lists_and_maps_are_found(rows):
    listed = with_unique_keys(pa.array(rows, pa.list_(_MAP)))
    listed.validate(full=True)
    assert listed.to_pylist() == [None if row is None else [once(x) for x in row] for row in rows]
    by_key = [None if row is None else [(str(n), x) for n, x in enumerate(row)] for row in rows]
    mapped = with_unique_keys(pa.array(by_key, pa.map_(pa.string(), _MAP)))
    assert mapped.to_pylist() == [
        None if row is None else [(key, once(x)) for key, x in row] for row in by_key
    ]


@given(rows=st.lists(st.none() | st.tuples(st.none() | _ENTRIES, st.integers(0, 9)), max_size=6))
def test_maps_inside_records_are_found(rows):
    given_rows = [None if one is None else {"by": one[0], "n": one[1]} for one in rows]
    result = with_unique_keys(pa.chunked_array([pa.array(given_rows, _RECORD)] * 2))
    expected = [one and {**one, "by": once(one["by"])} for one in given_rows]
    assert result.to_pylist() == expected * 2
    assert result.type == _RECORD


@pytest.mark.parametrize("kind", [pa.int64(), pa.struct([]), pa.list_(pa.string())])
def test_what_has_no_maps_stays(kind):
    column = pa.nulls(3, kind)
    assert with_unique_keys(column).equals(column)
