"""Sorting in runs: whatever fits in memory, the rows are those of one sort."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.output_formats import order
from connectors.output_formats.order import merged, sorted_rows

BY = ("key", "primary", "address")
keys = st.sampled_from([None, b"", b"a", b"ab", b"b", b"\xff"])
rows = st.lists(st.tuples(keys, st.integers(-3, 3)), max_size=60)


def query_batches(drawn, size):
    key = pa.array([one for one, _ in drawn], pa.binary())
    primary = pa.array([one for _, one in drawn], pa.int64())
    address = pa.array(range(len(drawn)), pa.int64())
    table = pa.table({"key": key, "primary": primary, "address": address})
    return table.to_batches(size)


def in_order(drawn):
    numbered = [(key, primary, at) for at, (key, primary) in enumerate(drawn)]
    return sorted(numbered, key=lambda row: (row[0] is not None, row[0] or b"", *row[1:]))


def tuples(batches):
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(order, "_PIECE_ROWS", 2)


@given(rows, st.integers(1, 9), st.sampled_from([1, 200, 10**6]))
def test_rows_come_in_order_however_many_fit_a_run(drawn, size, run_bytes):
    read_rows = sorted_rows(query_batches(drawn, size), BY, run_bytes=run_bytes)
    assert tuples(read_rows) == in_order(drawn)


@given(st.lists(st.lists(st.integers(0, 20)), max_size=4), st.integers(1, 3))
def test_sources_in_order_are_merged(drawn, size):
    numbered = iter(range(1000))
    sources = [sorted((value, next(numbered)) for value in source) for source in drawn]
    tables = [
        pa.table(
            {"a": pa.array([a for a, _ in source], pa.int64()), "n": [n for _, n in source] or None}
        )
        if source
        else pa.table({"a": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})
        for source in sources
    ]
    merged_rows = merged([iter(table.to_batches(size)) for table in tables], ("a", "n"))
    assert tuples(merged_rows) == sorted(row for source in sources for row in source)


def test_runs_lie_in_the_folder_and_leave_nothing_in_it(tmp_path):
    drawn = [(b"a", -at) for at in range(50)]
    for _ in sorted_rows(query_batches(drawn, 5), BY, tmp_path, run_bytes=1):
        assert list(tmp_path.iterdir()) == []
