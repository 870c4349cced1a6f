"""Goal: whatever a stream's schemas become, its table shows each value of each row, and no other.

Method: a history of schemas is drawn, with fields that come and go, change their types, have names
that differ in case, or those of the log's own columns. Rows of each schema are appended, some of
them late, and published version by version, or all at once. What delta-rs reads is compared with
the plain values; of a field's columns one has the value, and no column of another field has any.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_core.avro import AvroSchema
from storage_core.lake.delta_types import field_of
from storage_core.parts.typed_columns import ENVELOPE
from tests.examples import examples
from tests.lake.images.shelf import Shelf
from tests.lake.images.test_images import expect_parts_again
from tests.log.parts.parts_lab import NAME, PartsLab, Row

_compute: Any = pc
_MEMORY = Path("/dev/shm")  # noqa: S108 - a private directory is made inside it
NAMES = ["temp", "Temp", "temp_double", "shard", "state", "time", "primary", "value_state", "key"]
_WORDS = st.text(max_size=3)
_LOCAL = st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1))  # noqa: DTZ001 - of no zone


def logical(kind: str, name: str, **more: Any) -> Row:
    return {"type": kind, "logicalType": name, **more}


LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("string", _WORDS),
    ("bytes", st.binary(max_size=3)),
    (
        logical("bytes", "decimal", precision=10, scale=2),
        st.decimals("-99999999.99", "99999999.99", places=2),
    ),
    (
        logical("bytes", "decimal", precision=50, scale=1),
        st.integers(-(10**40), 10**40).map(lambda number: Decimal(number) / 10 * 10),
    ),
    (logical("int", "date"), st.dates()),
    (logical("long", "timestamp-micros"), _LOCAL.map(lambda moment: moment.replace(tzinfo=UTC))),
    (logical("long", "timestamp-nanos"), st.integers(-(2**63), 2**63 - 1)),
    (logical("long", "local-timestamp-micros"), _LOCAL),
    (logical("long", "time-micros"), st.times()),
]
_leaves = st.sampled_from(LEAVES)


@st.composite
def kinds(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any]]:
    """Draw a type that may be null, and what its values are drawn of."""
    wrap = draw(st.sampled_from(["alone", "alone", "array", "map", "record", "records"]))
    kind, values = draw(_leaves)
    values = st.none() | values
    union = ["null", kind]
    if wrap == "array":
        return {"type": "array", "items": union}, st.lists(values, max_size=2)
    if wrap == "map":
        entries = st.dictionaries(st.sampled_from("ab"), values, max_size=2)
        return {"type": "map", "values": union}, entries
    if wrap in ("record", "records"):
        name = draw(st.sampled_from(["deep", "Deep", "x"]))
        other, of_other = draw(_leaves)
        fields = [{"name": name, "type": union}, {"name": "other", "type": ["null", other]}]
        record = {"type": "record", "fields": fields}
        of_record = st.fixed_dictionaries({name: values, "other": st.none() | of_other})
        if wrap == "record":
            return record, of_record
        return {"type": "array", "items": record}, st.lists(of_record, max_size=2)
    return kind, values


@st.composite
def versions(draw: st.DrawFn) -> tuple[AvroSchema, list[Row]]:
    """Draw a schema and values of it."""
    drawn = draw(st.dictionaries(st.sampled_from(NAMES), kinds(), min_size=1, max_size=4))
    fields = [
        {"name": name, "type": ["null", _named(kind, f"R{index}")], "default": None}
        for index, (name, (kind, _)) in enumerate(drawn.items())
    ]
    schema = AvroSchema.parse(json.dumps({"type": "record", "name": "R", "fields": fields}))
    of_row = st.fixed_dictionaries({name: st.none() | of for name, (_, of) in drawn.items()})
    return schema, draw(st.lists(of_row, min_size=1, max_size=3))


def _named(kind: Any, name: str) -> Any:
    if isinstance(kind, dict) and kind["type"] == "array":
        return {**kind, "items": _named(kind["items"], name)}
    is_record = isinstance(kind, dict) and kind["type"] == "record"
    return {**kind, "name": name} if is_record else kind


@contextmanager
def shelved(history: list[tuple[AvroSchema, list[Row]]], *, at_once: bool) -> Iterator[Shelf]:
    """Return a table with the rows of all versions."""
    directory = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
    lab = PartsLab(directory / "root")
    shelf = Shelf(directory / "root", NAME, directory / "lake")
    try:
        for number, (schema, values) in enumerate(history):
            lab.append_values(schema, [_as_arrow(row) for row in values], 60 + number)
            if not at_once:
                lab.stream.seal()
                shelf.publish(begin=number)
        lab.stream.seal()
        shelf.publish(begin=2)
        yield shelf
    finally:
        lab.stream.close()
        shutil.rmtree(directory)


def _as_arrow(value: Any) -> Any:
    """Return a value as pyarrow takes it for its type: the entries of a map are pairs."""
    if isinstance(value, dict) and {*value} <= {"a", "b"}:
        return list(value.items())
    if isinstance(value, dict):
        return {name: _as_arrow(item) for name, item in value.items()}
    return [_as_arrow(item) for item in value] if isinstance(value, list) else value


def is_same(data_type: Any, cell: Any, value: Any) -> bool:  # noqa: PLR0911 - one way a type
    """Tell whether a value of a table's column shows a plain value."""
    if cell is None or value is None:
        return cell is value
    if pa.types.is_struct(data_type):
        return not list(faults_of(data_type, cell, value))
    if pa.types.is_list(data_type):
        item = data_type.value_type
        return len(cell) == len(value) and all(map(is_same, [item] * len(cell), cell, value))
    if pa.types.is_map(data_type):
        item = data_type.item_type
        return {*cell} == {*value} and all(is_same(item, cell[key], value[key]) for key in value)
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(cell)
    if isinstance(cell, str):
        return _is_text_of(cell, value)
    # An integer beside doubles may be one.
    return bool(cell == value)


def _is_text_of(text: str, value: Any) -> bool:
    if isinstance(value, Decimal):
        return Decimal(text) == value
    if isinstance(value, time):
        return time.fromisoformat(text) == value
    if isinstance(value, datetime):
        return datetime.fromisoformat(text) == value
    return bool(text == value)


def faults_of(columns: Any, row: Row, values: Row) -> Iterator[str]:
    """Tell which values of a row, or of a record, are not shown as they are, or not once."""
    for field in {field_of(column) for column in columns}:
        of_field = [column for column in columns if field_of(column) == field]
        filled = [column for column in of_field if row[column.name] is not None]
        value = values.get(field)
        if len(filled) != (value is not None):
            yield f"{field}: {value!r} is in {[column.name for column in filled]}"
        for column in filled:
            if not is_same(column.type, row[column.name], value):
                yield f"{field}: {value!r} is shown as {row[column.name]!r}"


def expect_files_not_skipped(shelf: Shelf) -> None:
    """Expect each value to be found by itself, whatever statistics make an engine pass over."""
    dataset = shelf.table.to_pyarrow_dataset()
    table = dataset.to_table()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        field: Any = pc.field(name)
        assert dataset.count_rows(filter=field.is_null()) == column.null_count
        if pa.types.is_nested(column.type):
            continue
        for value in _compute.unique(column.drop_null()):
            # Counted anew: zeros of both signs are equal, and a NaN is not even itself.
            count = _compute.sum(_compute.equal(column, value)).as_py()
            assert dataset.count_rows(filter=field == value) == count, (name, value)


@settings(max_examples=examples(20))
@given(history=st.lists(versions(), min_size=1, max_size=5), at_once=st.booleans())
def test_each_value_of_each_version_is_shown_once(history, at_once):
    with shelved(history, at_once=at_once) as shelf:
        assert shelf.columns is not None
        columns = [one for one in shelf.columns.schema if one.name.lower() not in ENVELOPE]
        expected = [values for _, rows in history for values in rows]
        rows = shelf.rows()
        assert len(rows) == len(expected)
        for row, values in zip(rows, expected, strict=True):
            assert list(faults_of(columns, row, values)) == []
        expect_parts_again(shelf)
        expect_files_not_skipped(shelf)
