"""Whatever Arrow holds is shown, also times that Python has not."""

import warnings
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from storage_core.platform.python_values import to_python

FAR_MS = 2**60
FAR = "36536598-01-28T21:54:06.976"
NANOS = 1_767_225_600_123_456_789


@pytest.mark.parametrize(
    ("kind", "count", "text"),
    [
        (pa.timestamp("ms", "UTC"), FAR_MS, FAR + "+00:00"),
        (pa.timestamp("ms"), FAR_MS, FAR),
        (pa.timestamp("us", "Europe/Berlin"), -(2**62), "-144169-06-28T09:59:32.612096+00:00"),
        (pa.timestamp("ns"), NANOS, "2026-01-01T00:00:00.123456789"),
        (pa.timestamp("us"), -(2**63), str(-(2**63))),
        (pa.date32(), 2**31 - 1, "5881580-07-11"),
        (pa.time64("ns"), 1, "00:00:00.000000001"),
        (pa.duration("s"), 2**62, str(2**62)),
    ],
)
def test_time_that_python_has_not_is_its_text(kind, count, text):
    assert to_python(pa.array([count, None], kind)) == [text, None]


def test_times_beside_it_are_what_they_would_be_alone():
    times = pa.array([0, FAR_MS], pa.timestamp("ms", "UTC"))
    assert to_python(times) == [datetime(1970, 1, 1, tzinfo=UTC), FAR + "+00:00"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.list_(pa.date32()), [0, 2**31 - 1], [date(1970, 1, 1), "5881580-07-11"]),
        (
            pa.struct([("at", pa.timestamp("ns"))]),
            {"at": 1},
            {"at": "1970-01-01T00:00:00.000000001"},
        ),
        (
            pa.map_(pa.string(), pa.timestamp("ns")),
            [("a", 1), ("b", 0), ("a", None)],
            {"a": None, "b": datetime(1970, 1, 1)},  # noqa: DTZ001 - as the column has none
        ),
        (pa.map_(pa.time64("ns"), pa.int8()), [(1, 2)], [("00:00:00.000000001", 2)]),
    ],
)
def test_time_within_others_is_its_text(kind, value, expected):
    with warnings.catch_warnings(action="error"):
        assert to_python(pa.array([value, None], kind)) == [expected, None]


def test_rows_are_dictionaries():
    rows = pa.table({"at": pa.array([1, None], pa.timestamp("ns")), "n": [1, 2]})
    expected = [{"at": "1970-01-01T00:00:00.000000001", "n": 1}, {"at": None, "n": 2}]
    assert to_python(rows) == expected
    assert to_python(rows.to_batches()[0]) == expected


def test_rows_without_columns_are_there():
    assert to_python(pa.table({"n": [1, 2]}).select([])) == [{}, {}]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (pa.string(), {"a": 2}),
        (pa.dictionary(pa.int8(), pa.string()), {"a": 2}),
        (pa.binary(), [(b"a", 1), (b"a", 2)]),
    ],
)
def test_map_is_a_dictionary_where_its_keys_are_texts(keys, expected):
    of_texts = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8()))
    maps = of_texts.cast(pa.map_(keys, pa.int8()))
    with warnings.catch_warnings(action="error"):
        assert to_python(maps) == [expected]
