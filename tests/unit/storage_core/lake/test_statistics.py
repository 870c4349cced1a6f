"""Statistics of files never lie: each value lies within its column's bounds, and nulls are counted.

Files are parts of several row groups with values that like the ends of their range.
"""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.lake.statistics import indexed_columns, indexed_property, statistics_of
from storage_core.parts.part_file import PartWriter
from storage_core.parts.row_groups import PartFile
from storage_core.platform.arrow import Array
from tests.unit.storage_core.strategies import int32s, int64s, many

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_10000_US = 253_402_300_800_000_000
YEARS_MS = 8_640_000 * 366 * 9000
long_texts = st.text(max_size=2).map(lambda text: text + 5000 * "x")
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), int32s),
    "version": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "long": (pa.int64(), int64s),
    "double": (pa.float64(), st.floats()),
    "float": (pa.float32(), st.floats(width=32)),
    "text": (pa.string(), st.text(max_size=4) | st.text(min_size=30, max_size=40) | long_texts),
    "high": (pa.string(), st.text(st.sampled_from("a\ud7ff\ue000\U0010ffff"), max_size=40)),
    "day": (pa.date32(), st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9)),
    "ms": (pa.timestamp("ms", "UTC"), int64s | st.integers(-YEARS_MS, YEARS_MS)),
    "us": (pa.timestamp("us", "UTC"), int64s | st.integers(-9999, 9999)),
    "cents": (pa.decimal128(10, 2), st.decimals("-99999999.99", "99999999.99", places=2)),
    "whole": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1)),
    "truth": (pa.bool_(), st.booleans()),
    "bytes": (pa.binary(), st.binary(max_size=4)),
}


def array_of(values: list[Any], data_type: Any) -> Array:
    if pa.types.is_temporal(data_type):
        width = pa.int32() if pa.types.is_date(data_type) else pa.int64()
        numbers: Any = pa.array(values, width)
        times: Array = numbers.cast(data_type)
        return times
    if pa.types.is_decimal(data_type):
        values = [value if value is None else Decimal(value) for value in values]
    array: Array = pa.array(values, data_type)
    return array


@st.composite
def row_groups(draw: st.DrawFn) -> list[dict[str, list[Any]]]:
    """Draw the values of each column in some row groups."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return [
        {
            name: draw(st.lists(st.none() | VALUES[name][1], min_size=size, max_size=size))
            for name in names
        }
        for size in sizes
    ]


def statistics_in(path: Path, groups: list[dict[str, list[Any]]]) -> dict[str, Any]:
    """Return the statistics of a part with these row groups."""
    tables = [
        pa.table({name: array_of(values, VALUES[name][0]) for name, values in group.items()})
        for group in groups
    ]
    path.unlink(missing_ok=True)
    with PartWriter(path, pa.concat_tables(tables), tables[0].schema.names[:1]) as writer:
        for table in tables:
            writer.write(table)
        proof = writer.finish()
    with PartFile(path, proof) as file:
        statistics: dict[str, Any] = json.loads(
            statistics_of(file, file.footer.schema), parse_float=Decimal
        )
    return statistics


def bound_of(name: str, bound: Any) -> Any:
    """Return a bound as a number or text that values are compared with."""
    if name == "day":
        return (date.fromisoformat(bound) - EPOCH.date()).days
    if name in ("ms", "us"):
        return (datetime.fromisoformat(bound) - EPOCH) // timedelta(microseconds=1)
    return bound


def comparable(name: str, value: Any) -> Any:
    return value * 1000 if name == "ms" else value


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where parts are written."""
    return tmp_path_factory.mktemp("parts") / "part"


@many
@given(groups=row_groups())
def test_each_value_lies_within_bounds_and_nulls_are_counted(path, groups):
    statistics = statistics_in(path, groups)
    indexed = indexed_columns(pa.schema([(name, VALUES[name][0]) for name in groups[0]]))
    assert statistics["numRecords"] == sum(len(next(iter(group.values()))) for group in groups)
    for name in groups[0]:
        values = [value for group in groups for value in group[name]]
        filled = [comparable(name, value) for value in values if value is not None]
        has_bounds = name in indexed and "nullCount" in statistics and bool(filled)
        assert has_bounds == (name in statistics.get("minValues", {}))
        assert has_bounds == (name in statistics.get("maxValues", {}))
        if "nullCount" in statistics and name in indexed:
            assert statistics["nullCount"][name] == len(values) - len(filled)
        if has_bounds:
            least = bound_of(name, statistics["minValues"][name])
            assert all(value >= least for value in filled)
            most = bound_of(name, statistics["maxValues"][name])
            assert all(value <= most for value in filled)


def bounds_of(path: Path, name: str, values: list[Any]) -> tuple[Any, Any]:
    statistics = statistics_in(path, [{name: values}])
    both = statistics.get("minValues", {}), statistics.get("maxValues", {})
    return both[0].get(name), both[1].get(name)


@pytest.mark.parametrize(
    ("name", "values", "bounds"),
    [
        ("long", [3, None, -(2**63), 2**63 - 1], (-(2**63), 2**63 - 1)),
        ("version", [65535, 7], (7, 65535)),
        ("double", [0.5], (None, None)),
        ("text", [None], (None, None)),
        # Footers have no bounds of long texts.
        ("text", ["z" * 9000, "y" * 9000, None, ""], ("", "z" * 31 + "{")),
        ("text", ["b", "ä"], ("b", "ä")),
        ("text", ["a" * 33, "z" * 33], ("a" * 32, "z" * 31 + "{")),
        ("high", ["a" * 31 + "\ud7ff\ud7ff"], ("a" * 31 + "\ud7ff", "a" * 31 + "\ue000")),
        ("high", ["\U0010ffff" * 33], ("\U0010ffff" * 32, "\U0010ffff" * 33)),
        ("high", ["a" + "\U0010ffff" * 32], ("a" + "\U0010ffff" * 31, "b")),
        ("day", [-1, 0], ("1969-12-31", "1970-01-01")),
        ("day", [-1_000_000, 10_000_000], (None, None)),
        ("ms", [-1, 1], ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.001Z")),
        ("us", [-1, 1], ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.001Z")),
        ("us", [YEAR_10000_US - 1], ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999999Z")),
        ("us", [YEAR_10000_US - 1000], ("9999-12-31T23:59:59.999Z",) * 2),
        ("us", [YEAR_10000_US], (None, None)),
        ("ms", [YEAR_10000_US // 1000], (None, None)),
        ("us", [0, 2**63 - 1], (None, None)),
        ("cents", ["-0.10", "12.00"], (Decimal("-0.10"), Decimal("12.00"))),
        ("whole", [1], (None, None)),
        ("truth", [True], (None, None)),
        ("bytes", [b"x"], (None, None)),
    ],
)
def test_bounds_are_written_as_delta_has_them(path, name, values, bounds):
    assert bounds_of(path, name, values) == bounds


def test_first_columns_and_so_many_others_are_told(path):
    names = [f"c{number:02}" for number in range(40)]
    rows = pa.table({name: pa.array([1]) for name in (*names, "address", "primary")})
    table = pa.schema([("shard", pa.int32()), *rows.schema, ("absent", pa.int64())])
    path.unlink(missing_ok=True)
    with PartWriter(path, rows, ["primary"]) as writer:
        writer.write(rows)
        proof = writer.finish()
    with PartFile(path, proof) as file:
        statistics = json.loads(statistics_of(file, table))
        lacking = json.loads(statistics_of(file, pa.schema([("absent", pa.int64())])))
    assert list(statistics["minValues"]) == ["primary", "address", *names[:32]]
    assert lacking == {
        "numRecords": 1,
        "minValues": {},
        "maxValues": {},
        "nullCount": {"absent": 1},
    }


def test_table_names_its_indexed_columns():
    table = pa.schema(
        [
            ("shard", pa.int32()),
            *((name, VALUES[name][0]) for name in ("text", "double", "bytes", "truth", "whole")),
            ("address", pa.int64()),
        ]
    )
    assert indexed_property(table) == {"delta.dataSkippingStatsColumns": "address,text"}


def test_file_with_a_time_that_has_no_bound_has_none_at_all(path):
    groups = [{"long": [1, 2], "day": [0, 10_000_000]}]
    assert statistics_in(path, groups) == {"numRecords": 2}


def test_no_character_is_escaped_that_need_not_be(path):
    # delta-rs takes some escapes for other characters, and passes over the file.
    rows = pa.table({"text": ["\U000244be"]})
    path.unlink(missing_ok=True)
    with PartWriter(path, rows, ["text"]) as writer:
        writer.write(rows)
        proof = writer.finish()
    with PartFile(path, proof) as file:
        assert '"minValues":{"text":"\U000244be"}' in statistics_of(file, rows.schema)
