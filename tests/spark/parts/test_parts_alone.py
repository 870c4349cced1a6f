"""Goal: every tool of the field opens a part by itself, and all find the same rows.

Method: values of every type that a part can have, with nulls and ends of their ranges, beside rows
that no usual program writes, are sealed. Each file is read by pyarrow, DuckDB and Spark, which know
of nothing but its path, and the rows are compared in one form; those of pyarrow with the log. What
Spark has no reader of it refuses, and reads the other columns.
"""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from storage_core.avro import AvroSchema
from tests.log.export.strange_rows import append_strange
from tests.log.parts.parts_lab import PartsLab, Row


def _logical(kind: str, logical: str, **more: Any) -> Row:
    return {"type": kind, "logicalType": logical, **more}


_PLACE: Row = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "floor", "type": "int"}, {"name": "door", "type": ["null", "string"]}],
}
_KINDS: dict[str, tuple[Any, list[Any]]] = {
    "flag": ("boolean", [True, False]),
    "small": ("int", [-(2**31), 2**31 - 1]),
    "large": ("long", [-(2**63), 2**63 - 1]),
    "single": ("float", [0.5, float("nan")]),
    "double": ("double", [-0.0, float("inf")]),
    "text": ("string", ["", "é\u2028\x00"]),
    "bytes": ("bytes", [b"", b"\x00\xff"]),
    "fixed": ({"type": "fixed", "name": "Three", "size": 3}, [b"abc", b"\x00\xff\x00"]),
    "enum": ({"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}, ["LOW", "HIGH"]),
    "day": (_logical("int", "date"), [date(1582, 10, 4), date(2100, 1, 1)]),
    "moment_ms": (_logical("long", "timestamp-millis"), [datetime(1900, 1, 1, tzinfo=UTC)] * 2),
    "moment_us": (
        _logical("long", "timestamp-micros"),
        [datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)] * 2,
    ),
    "local": (_logical("long", "local-timestamp-micros"), [datetime(2024, 3, 31, 2, 30)] * 2),  # noqa: DTZ001 - of no zone
    "price": (
        _logical("bytes", "decimal", precision=38, scale=2),
        [Decimal("-0.01"), Decimal("9" * 36 + ".01")],
    ),
    "cents": (_logical("bytes", "decimal", precision=9, scale=2), [Decimal("1.00")] * 2),
    "wide": (_logical("bytes", "decimal", precision=50, scale=0), [Decimal(10**49), Decimal(-1)]),
    "place": (_PLACE, [{"floor": 1, "door": None}, {"floor": -1, "door": "d"}]),
    "listed": ({"type": "array", "items": ["null", "long"]}, [[], [None, 2**40]]),
    "by_name": ({"type": "map", "values": "Place"}, [[], [("k", {"floor": 2, "door": "x"})]]),
    "places": ({"type": "array", "items": "Place"}, [[{"floor": 3, "door": None}], []]),
}
# What Spark has no reader of.
_UNREAD: dict[str, tuple[Any, list[Any]]] = {
    "clock_ms": (_logical("int", "time-millis"), [time(0), time(23, 59, 59, 999_000)]),
    "clock_us": (_logical("long", "time-micros"), [time(0), time(23, 59, 59, 999_999)]),
    "moment_ns": (_logical("long", "timestamp-nanos"), [0, 1_700_000_000_000_000_001]),
}


def _appended(lab: PartsLab, kinds: dict[str, tuple[Any, list[Any]]]) -> None:
    """Append two values of each type, and a row with none."""
    fields = [{"name": name, "type": ["null", kind]} for name, (kind, _) in kinds.items()]
    text = json.dumps({"type": "record", "name": "Every", "fields": fields})
    rows = [{name: values[at] for name, (_, values) in kinds.items()} for at in (0, 1)]
    lab.append_values(AvroSchema.parse(text), [*rows, dict.fromkeys(kinds)], 80)


def as_written(value: Any) -> Any:
    """Return a value in a form that values of all tools can have."""
    if isinstance(value, dict):
        return [[name, as_written(one)] for name, one in value.items()]
    if isinstance(value, list | tuple):
        return [as_written(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    return repr(value)


def rows_of(table: Any) -> list[Any]:
    """Return rows by their columns' names, in the order of address."""
    columns = {}
    for name in table.schema.names:
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            finest: Any = pa.timestamp("ns" if column.type.unit == "ns" else "us")
            zoned: Any = pa.timestamp(finest.unit, "UTC")
            column = column.cast(zoned if column.type.tz else finest).cast(pa.int64())
        columns[name] = [as_written(value) for value in column.to_pylist()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return sorted(rows, key=lambda row: int(row["address"]))


def by_duckdb(path: Any) -> Any:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.read_parquet(str(path)).to_arrow_table()


@pytest.fixture(params=["none", "dictionary"])
def lab(request, tmp_path):
    lab = PartsLab(tmp_path, key_mode=request.param)
    yield lab
    lab.stream.close()


def test_all_tools_find_the_same_rows_in_a_part(spark, lab):
    rng = np.random.default_rng(51)
    lab.append(rng, 200)
    for _ in range(20):
        append_strange(lab, rng)
    if not lab.has_keys:
        _appended(lab, _KINDS)
    before = lab.rows()
    lab.stream.seal()
    assert lab.rows_of_parts() == before
    kinds = {part.entry.kind for part in lab.stream.parts()}
    assert {"", "Alarm", "Telemetry"} < kinds
    assert any(part.entry.is_out_of_order for part in lab.stream.parts())
    for part in lab.stream.parts():
        expected = rows_of(pq.read_table(part.path))
        assert len(expected) == part.entry.rows
        assert rows_of(by_duckdb(part.path)) == expected
        assert rows_of(spark.read.parquet(str(part.path)).toArrow()) == expected


def test_values_of_every_type_are_those_that_were_written(tmp_path):
    lab = PartsLab(tmp_path)
    _appended(lab, _KINDS | _UNREAD)
    lab.stream.seal()
    (part,) = lab.stream.parts()
    lab.stream.close()
    rows = rows_of(pq.read_table(part.path))
    for name, (_, values) in _KINDS.items():
        if not isinstance(values[0], datetime):
            texts = [str(value) if name == "wide" else value for value in values]
            assert [row[name] for row in rows] == [as_written(one) for one in (*texts, None)]
    assert rows_of(by_duckdb(part.path)) == rows


@pytest.mark.parametrize("name", _UNREAD)
def test_spark_tells_what_it_cannot_read_and_reads_the_rest(spark, tmp_path, name):
    lab = PartsLab(tmp_path)
    _appended(lab, {"small": _KINDS["small"], name: _UNREAD[name]})
    lab.stream.seal()
    (part,) = lab.stream.parts()
    lab.stream.close()
    table: Any = pq.read_table(part.path)
    with pytest.raises(PySparkException, match=r"(?i)parquet|TIME"):
        spark.read.parquet(str(part.path)).collect()
    rest = spark.read.schema("address bigint, small int").parquet(str(part.path)).toArrow()
    assert rows_of(rest) == rows_of(table.select(["address", "small"]))
