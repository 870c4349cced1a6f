"""The digest of a batch: the same rows in any order and any parts, and no others."""

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import Contents
from streaming_jobs.sink.contents import contents_of

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: dict[str, pa.DataType] = {
    "primary": pa.timestamp("us", tz="UTC"),
    "secondary": pa.int32(),
    "value": pa.binary(),
    "text": pa.string(),
    "headers": pa.list_(HEADER),
}
SCHEMA = pa.schema(TYPES)
ONE, TWO = {"key": "a", "value": None}, {"key": "a", "value": b""}
ROWS = [
    dict(zip(SCHEMA.names, row, strict=True))
    for row in product(
        [None, 0, -1],
        [None, 0, -1],
        [None, b"", b"a", b"a" * 9],
        [None, "", "a"],
        [None, [], [ONE], [TWO], [ONE, TWO], [TWO, ONE], [None]],
    )
]
ALL = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


@given(st.permutations(range(40)), st.integers(0, 40))
def test_order_and_parts_leave_no_trace(order, cut):
    again = ALL.slice(700).take(pa.array(order))
    contents = contents_of(again.slice(0, cut)) + contents_of(again.slice(cut))
    assert contents == contents_of(ALL.slice(700, 40))
    assert contents.rows == 40


def test_each_row_has_a_digest_of_its_own():
    held = [contents_of(ALL.slice(at, 1)) for at in range(len(ROWS))]
    assert len({one.first for one in held}) == len({one.second for one in held}) == len(ROWS)


def test_column_of_nulls_is_like_none():
    without = ALL.drop_columns(["headers"])
    nulls = pa.nulls(len(ROWS), SCHEMA.field("headers").type)
    assert contents_of(without.append_column("headers", nulls)) == contents_of(without)


def test_same_row_twice_is_not_once_and_sums_are_no_sums_of_columns():
    row, other = {"secondary": 1, "value": b"a"}, {"secondary": 2, "value": b"b"}
    swapped = [{"secondary": 1, "value": b"b"}, {"secondary": 2, "value": b"a"}]
    batches = [
        pa.RecordBatch.from_pylist(rows) for rows in ([row], [row, row], [row, other], swapped)
    ]
    held = [contents_of(each) for each in batches]
    assert len({(one.first, one.second) for one in held}) == 4


def test_types_that_hold_the_same_have_the_same_digest():
    narrow = pa.record_batch({"n": pa.array([1, None], pa.int8()), "b": pa.array(["x", ""])})
    wide = pa.record_batch(
        {"n": pa.array([1, None], pa.int64()), "b": pa.array([b"x", b""], pa.large_binary())}
    )
    assert contents_of(narrow) == contents_of(wide)


@pytest.mark.parametrize("rows", [0, 10_000])
def test_digest_stays_in_its_range(rows):
    held = contents_of(pa.record_batch({"n": pa.array(range(rows), pa.int64())}))
    assert 0 <= held.first < 2**64
    assert 0 <= held.second < 2**64
    assert (held == Contents()) == (rows == 0)
