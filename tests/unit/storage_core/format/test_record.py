"""The door for batches: exact types, or what casts to them without loss, or a refusal by name."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from storage_core import InvalidRequestError
from storage_core.format.record import no_rows, rows_from_arrow
from storage_core.format.row_columns import HEADERS_TYPE
from tests.log.workbench import batch_of
from tests.unit.storage_core.strategies import few, rows


def columns(**given_columns: Any) -> pa.RecordBatch:
    """Return a batch of one good row with some columns in place of its own."""
    good: dict[str, Any] = {"primary": [1], "secondary": [2], "payload": [b"x"]}
    return pa.RecordBatch.from_pydict({**good, **given_columns})


def taken(batch: object, name: str) -> list:
    """Return a column as the log takes it."""
    rows = rows_from_arrow(batch, 100)
    column: Any = rows.envelope.get(name, getattr(rows, name, None))
    values: list = column.tolist()
    return values


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("primary", pa.array([1], pa.int8()), 1),
        ("primary", pa.array([2**63 - 1], pa.uint64()), 2**63 - 1),
        ("primary", pa.array([5.0]), 5),
        ("secondary", pa.array([-(2**31)], pa.int64()), -(2**31)),
        ("payload", pa.array(["ü"]), "ü".encode()),
        ("payload", pa.array([b"x"], pa.large_binary()), b"x"),
        ("payload", pa.array([b"x"], pa.binary(1)), b"x"),
        ("payload", pa.array([b"x"]).dictionary_encode(), b"x"),
        ("payload", pa.array([None], pa.null()), None),
        ("version", pa.array([7], pa.int64()), 7),
        ("key", pa.array(["k"]), b"k"),
        ("timestamp", pa.array([None], pa.int64()), None),
        ("timestamp_type", pa.array([-1], pa.int64()), -1),
    ],
)
def test_column_that_casts_without_loss_is_taken(name, column, value):
    assert taken(columns(**{name: column}), name) == [value]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("primary", pa.array([2**63], pa.uint64())),
        ("primary", pa.array([0.5])),
        ("primary", pa.array(["now"])),
        ("primary", pa.array([None], pa.int64())),
        ("secondary", pa.array([2**31])),
        ("secondary", pa.array([None], pa.int32())),
        ("payload", pa.array([5])),
        ("payload", pa.array([[1]])),
        ("payload", pa.array([b"x" * 101])),
        ("version", pa.array([-1])),
        ("version", pa.array([2**16])),
        ("version", pa.array([None], pa.uint16())),
        ("headers", pa.array(["h"])),
        ("headers", pa.array([[{"key": None, "value": b""}]])),
        ("headers", pa.array([[{"k": "a", "v": b""}]])),
        ("timestamp", pa.array(["yesterday"])),
        ("timestamp_type", pa.array([200])),
        ("colour", pa.array([1])),
        ("address", pa.array([1])),
    ],
)
def test_column_that_does_not_fit_is_refused_by_name(name, column):
    with pytest.raises(InvalidRequestError, match=name):
        rows_from_arrow(columns(**{name: column}), 100)


@pytest.mark.parametrize("name", ["primary", "secondary", "payload"])
def test_missing_column_is_named(name):
    with pytest.raises(InvalidRequestError, match=f"column '{name}' is missing"):
        rows_from_arrow(columns().drop_columns([name]), 100)


def test_repeated_column_is_refused():
    batch = pa.RecordBatch.from_arrays([pa.array([1])] * 2, names=["primary", "primary"])
    with pytest.raises(InvalidRequestError, match="repeated"):
        rows_from_arrow(batch, 100)


@pytest.mark.parametrize("batch", [None, [1], {"primary": [1]}, "batch", pa.array([1])])
def test_what_is_no_batch_is_refused_by_its_type(batch):
    with pytest.raises(InvalidRequestError, match=type(batch).__name__):
        rows_from_arrow(batch, 100)


def test_table_of_many_chunks_is_one_batch():
    table = pa.Table.from_batches([batch_of([1, 2]), batch_of([3])])
    assert taken(table, "primary") == [1, 2, 3]


@pytest.mark.parametrize("empty", [batch_of([]), pa.Table.from_batches([batch_of([])])])
def test_batch_without_rows_is_taken(empty):
    assert len(rows_from_arrow(empty, 100)) == 0


def test_headers_of_any_nullability_are_taken():
    loose = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [{"key": "a", "value": None}]
    batch = columns(headers=pa.array([headers], loose))
    assert rows_from_arrow(batch, 100).envelope["headers"].type == HEADERS_TYPE
    assert taken(batch, "headers") == [headers]


def test_versions_that_are_all_zero_are_not_kept():
    assert rows_from_arrow(batch_of([1, 2], version=0), 100).version is None


@few
@given(rows())
def test_sizes_are_those_of_the_payloads_though_sliced(given_rows):
    part = given_rows.slice(1, len(given_rows))
    assert part.payload_sizes().tolist() == [len(one or b"") for one in part.payload.to_pylist()]


@few
@given(rows())
def test_sizes_of_rows_count_keys_and_headers(given_rows):
    for part in (given_rows.slice(1, len(given_rows)), given_rows.take(np.arange(1))):
        columns = {name: column.to_pylist() for name, column in part.envelope.items()}
        sizes = [len(payload or b"") for payload in part.payload.to_pylist()]
        for row, key in enumerate(columns.get("key", ())):
            sizes[row] += len(key or b"")
        for row, headers in enumerate(columns.get("headers", ())):
            entries = [entry for entry in headers or () if entry is not None]
            texts = [text or "" for entry in entries for text in (entry["key"],)]
            sizes[row] += sum(len(text.encode()) for text in texts)
            sizes[row] += sum(len(entry["value"] or b"") for entry in entries)
        assert part.sizes().tolist() == sizes


@few
@given(rows())
def test_slice_and_take_agree(given_rows):
    positions = np.arange(1, len(given_rows))
    cut, chosen = given_rows.slice(1, len(given_rows)), given_rows.take(positions)
    assert cut.primary.tolist() == chosen.primary.tolist()
    assert cut.payload.to_pylist() == chosen.payload.to_pylist()
    assert {name: column.to_pylist() for name, column in cut.envelope.items()} == {
        name: column.to_pylist() for name, column in chosen.envelope.items()
    }


def test_no_rows_are_no_rows():
    assert (len(no_rows()), no_rows().payload_sizes().tolist()) == (0, [])


def test_header_key_that_is_no_text_is_refused():
    key = pa.array([b"\xff"]).view(pa.string())
    entries = pa.StructArray.from_arrays(
        [key, pa.array([b"v"])], fields=list(HEADERS_TYPE.value_type)
    )
    headers = pa.ListArray.from_arrays([0, 1], entries)
    with pytest.raises(InvalidRequestError, match="not UTF-8"):
        rows_from_arrow(columns(headers=headers), 100)
