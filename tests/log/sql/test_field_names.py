"""Goal: a field is one column with its own values, whatever its name, wherever its rows lie.

Method: values of schemas whose fields have names that meet are appended: of the same letters in
another case, of a column of the log, of that behind `value_`. SQL is asked while they are not
sealed, while some are, and once all are; payloads are made again. Parts as they were made where two
fields could be one column are forged of those that are made today.
"""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from storage_core import Stream, StreamOptions
from storage_core.sql import query_batches
from tests.log.parts.parts_lab import NAME, PartsLab, Row, schema_of
from tests.thin import covering

_compute: Any = pc
MEETING: list[list[list[str]]] = [
    [["temp"], ["Temp"]],
    [["Temp", "temp"], ["temp", "Temp"]],
    [["temp", "Temp"], ["Temp_1"], ["temp_2", "TEMP"]],
    [["shard", "value_shard"]],
    [["value_shard", "Shard", "shard"], ["value_value_shard"]],
    [["shard"], ["value_shard"]],
    [["state", "value_state"], ["value_state"]],
]
OWN = (
    *("shard", "secondary", "primary", "time", "address", "version", "state", "key", "headers"),
    *("timestamp", "timestamp_type", "schema_id", "payload"),
)


@pytest.fixture
def lab(root):
    lab = PartsLab(root)
    yield lab
    lab.stream.close()


def answer(lab: PartsLab, query: str) -> list[Row]:
    _, batches = query_batches(lab.root, query)
    return [row for batch in batches for row in batch.to_pylist()]


def columns_of(lab: PartsLab) -> list[str]:
    schema, _ = query_batches(lab.root, f"SELECT * FROM {NAME}")
    return schema.names


def values_shown(lab: PartsLab) -> list[list[int]]:
    """Return the values of each row, without the columns that it has none in."""
    result = answer(lab, f"SELECT * EXCLUDE (payload) FROM {NAME} ORDER BY address")
    return [
        sorted(value for name, value in row.items() if name not in OWN and value is not None)
        for row in result
    ]


def fields_shown(lab: PartsLab, *columns: str) -> list[tuple[Any, ...]]:
    listed = ", ".join(f'"{one}"' for one in columns)
    result = answer(lab, f"SELECT {listed} FROM {NAME} ORDER BY address")
    return [tuple(row.values()) for row in result]


def append_version(lab: PartsLab, names: list[str], number: int) -> list[int]:
    """Append a row of a schema; return its values, no two of which are the same."""
    values = {name: 100 * number + at for at, name in enumerate(names)}
    schema = schema_of([{"name": name, "type": "long"} for name in names])
    lab.append_values(schema, [values], number)
    return list(values.values())


@covering(schemas=MEETING, sealed=["none", "first", "each", "all"])
def test_each_field_is_a_column_with_its_own_values(lab, schemas, sealed):
    expected_values = []
    for number, names in enumerate(schemas, 1):
        expected_values.append(append_version(lab, names, number))
        if sealed == "each" or (sealed == "first" and number == 1):
            lab.stream.seal()
    rows = lab.rows()
    if sealed == "all":
        lab.stream.seal()
        lab.stream.trim()
    assert values_shown(lab) == expected_values
    fields = {name for names in schemas for name in names}
    assert len(columns_of(lab)) == len(OWN) + len(fields)
    assert lab.rows() == rows


def test_columns_are_the_same_wherever_rows_lie_and_only_become_more(lab):
    seen = [columns_of(lab)]
    for number, names in enumerate((["temp", "shard"], ["Temp"], ["value_shard", "TEMP"]), 1):
        append_version(lab, names, number)
        hot = columns_of(lab)
        lab.stream.seal()
        assert columns_of(lab) == hot
        seen.append(hot)
    lab.stream.compact()
    lab.stream.trim()
    assert columns_of(lab) == seen[-1]
    for before, after in pairwise(seen):
        assert after[: len(before)] == before
    fields = ["temp", "value_shard", "Temp_2", "value_value_shard", "TEMP_3"]
    assert seen[-1][len(OWN) :] == fields


def test_columns_follow_from_options_and_schemas_and_never_from_rows(lab):
    before = columns_of(lab)
    assert tuple(before) == OWN
    lab.stream.append(1, 2, b"raw")
    lab.stream.commit()
    assert columns_of(lab) == before
    columns = {"primary": [2], "secondary": pa.array([2], pa.int32())}
    rest = {"payload": pa.array([None], pa.binary()), "key": [b"k"], "timestamp": [5]}
    lab.stream.append_batch(pa.table(columns | rest))
    lab.stream.commit()
    assert columns_of(lab) == before
    append_version(lab, ["t"], 1)
    typed = columns_of(lab)
    lab.stream.seal()
    assert columns_of(lab) == typed == [*before, "t"]
    assert fields_shown(lab, "key", "schema_id")[1:] == [(b"k", None), (None, 1)]


def test_types_follow_from_schemas_and_never_from_rows(lab):
    for number, kind in enumerate(("int", "long"), 1):
        lab.append_values(schema_of([{"name": "n", "type": kind}]), [{"n": number}], number)
    schema, _ = query_batches(lab.root, f"SELECT n FROM {NAME} WHERE schema_id = 1")
    assert schema.field("n").type == pa.int64()
    lab.stream.seal()
    schema, _ = query_batches(lab.root, f"SELECT n FROM {NAME} WHERE schema_id = 1")
    assert schema.field("n").type == pa.int64()


def test_stream_of_keys_has_them_in_the_place_of_ids(root):
    Stream.create(root, NAME, StreamOptions(key_mode="dictionary")).close()
    schema, _ = query_batches(root, f"SELECT * FROM {NAME}")
    assert schema.names[:3] == ["shard", "key", "primary"]
    assert schema.names.count("key") == 1


def _record_of(*names: str) -> Row:
    fields = [{"name": name, "type": "int"} for name in names]
    return {"name": "x", "type": {"type": "record", "name": "Inner", "fields": fields}}


@pytest.mark.parametrize("sealed", ["none", "each", "all"])
def test_fields_of_records_that_differ_only_in_case_have_their_own_values(lab, sealed):
    for number, name in enumerate(("b", "B"), 1):
        lab.append_values(schema_of([_record_of(name)]), [{"x": {name: number}}], number)
        if sealed == "each":
            lab.stream.seal()
    if sealed == "all":
        lab.stream.seal()
    result = answer(lab, f"SELECT x.b AS b, x.B_2 AS other FROM {NAME} ORDER BY address")
    assert result == [{"b": 1, "other": None}, {"b": None, "other": 2}]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_record_of_two_fields_that_differ_only_in_case_is_in_its_payload_alone(lab, is_sealed):
    schema = schema_of([_record_of("b", "B"), {"name": "y", "type": "int"}])
    lab.append_values(schema, [{"x": {"b": 1, "B": 2}, "y": 3}], 1)
    rows = lab.rows()
    if is_sealed:
        lab.stream.seal()
    assert columns_of(lab) == [*OWN, "y"]
    assert fields_shown(lab, "y", "payload") == [(3, rows[0]["payload"])]
    lab.stream.trim()
    assert lab.rows() == rows


@pytest.mark.parametrize(
    ("unit", "primaries", "times"),
    [
        (
            "s",
            [-1, 1_700_000_000, 2**60],
            ["1969-12-31 23:59:59+00", "2023-11-14 22:13:20+00", None],
        ),
        ("ms", [-1, 2**62], ["1969-12-31 23:59:59.999+00", None]),
        ("us", [-1, 2**63 - 1], ["1969-12-31 23:59:59.999999+00", None]),
        (
            "ns",
            [-1, 1001],
            ["1969-12-31 23:59:59.999999+00", "1970-01-01 00:00:00.000001+00"],
        ),
    ],
)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_time_is_the_primary_by_the_unit_of_the_stream(root, unit, primaries, times, is_sealed):
    options = StreamOptions(shards=1, unit=unit, ahead_max=2**63 - 1)
    with Stream.create(root, NAME, options) as stream:
        for primary in primaries:
            stream.append(primary, 1, b"x")
        stream.commit()
        if is_sealed:
            stream.seal()
    _, batches = query_batches(root, f'SELECT time::VARCHAR AS t FROM {NAME} ORDER BY "primary"')
    assert [row["t"] for batch in batches for row in batch.to_pylist()] == times


def test_stream_of_a_sequence_has_no_time(root):
    Stream.create(root, NAME, StreamOptions(unit="sequence")).close()
    schema, _ = query_batches(root, f"SELECT * FROM {NAME}")
    assert "time" not in schema.names
