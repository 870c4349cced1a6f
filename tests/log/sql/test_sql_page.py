"""Goal: each query of docs/SQL.md answers what plain Python finds in the same rows.

Method: the blocks of the page are taken from it. One makes two streams of which a part is sealed,
and the others run over them.
A block without an expectation here is an error, and so is an expectation without a block.
"""

import contextlib
import csv
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow.parquet as pq
import pytest

from storage_core.sql import query_batches
from tests.log.parts.parts_lab import FIRST_MS

PAGE = (Path(__file__).parents[3] / "docs/SQL.md").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"### ([^\n]+)\n\n```sql\n(.*?)```", PAGE, re.DOTALL))
(PYTHON,) = re.findall(r"```python\n([^`]*?COPY.*?)```", PAGE, re.DOTALL)
(MAKING,) = re.findall(r"```python\n([^`]*?Stream\.create.*?)```", PAGE, re.DOTALL)
DEVICES = 20
ROWS = 30_000
NEWER = 15_000
Row = dict[str, Any]


def _measured(index: int) -> Row:
    is_late = index % 50 == 49
    return {
        "address": index,
        "secondary": index % DEVICES,
        # No two rows have one time.
        "primary": FIRST_MS + index * 1000 - is_late * 50_500,
        "state": int(is_late),
        "temperature": 18.0 + index * 7 % 50 / 2,
        "room": ("hall", "lab", "roof")[index % 3],
        "readings": [float(index % 11)] * (index % 4),
        "place": {"floor": index % 5, "door": "n"},
        "humidity": None if index < NEWER or index % 7 == 0 else index % 4 / 4,
        "schema_id": 1 if index < NEWER else 2,
    }


TELEMETRY = [_measured(at) for at in range(ROWS)]
ALARMS = [
    {
        "address": number,
        "secondary": number * 3 % DEVICES,
        "primary": FIRST_MS + 60_000 + number * 500_250,
        "level": number % 4,
    }
    for number in range(50)
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The two streams that the program of the page makes."""
    place = tmp_path_factory.mktemp("page")
    with contextlib.chdir(place):
        exec(MAKING, {})  # noqa: S102 - the page's own
    return place / "data"


def by_ten_minutes() -> list[Row]:
    result = defaultdict(list)
    for row in TELEMETRY:
        result[row["primary"] // 600_000].append(row["temperature"])
    return [
        {
            "bucket": datetime.fromtimestamp(bucket * 600, UTC),
            "records": len(values),
            "mean": pytest.approx(fmean(values)),
        }
        for bucket, values in sorted(result.items())
    ]


def newest() -> list[Row]:
    rows = [max(_of(device), key=lambda row: row["primary"]) for device in range(DEVICES)]
    return [{name: row[name] for name in ("secondary", "primary", "temperature")} for row in rows]


def joined() -> list[Row]:
    result = []
    for alarm in ALARMS:
        end = alarm["primary"]
        near = [
            row["temperature"]
            for row in _of(alarm["secondary"])
            if end - 60_000 <= row["primary"] <= end
        ]
        if near:
            item = {"address": alarm["address"], "level": alarm["level"]}
            result.append({**item, "records": len(near), "most": max(near)})
    return result


def known_then() -> list[Row]:
    result = []
    for alarm in ALARMS:
        before = [row for row in _of(alarm["secondary"]) if row["primary"] <= alarm["primary"]]
        if before:
            names = max(before, key=lambda row: row["primary"])
            item = {"address": alarm["address"], "secondary": alarm["secondary"]}
            measured = {"measured": names["primary"], "temperature": names["temperature"]}
            result.append({**item, **measured})
    return result


def beside() -> list[Row]:
    result = []
    for device in range(3):
        rows = sorted(_of(device), key=lambda row: row["primary"])
        for index, row in enumerate(rows):
            last = [one["temperature"] for one in rows[max(0, index - 4) : index + 1]]
            result.append(
                {
                    "secondary": device,
                    "primary": row["primary"],
                    "change": last[-1] - last[-2] if index else None,
                    "mean_of_five": sum(last) / len(last),
                }
            )
    return result


def inside() -> list[Row]:
    return [
        {
            "floor": floor,
            "most": max(one for row in rows for one in row["readings"]),
            "items": sum(len(row["readings"]) for row in rows),
        }
        for floor in range(5)
        if (rows := [row for row in TELEMETRY if row["place"]["floor"] == floor])
    ]


def versions() -> list[Row]:
    result = []
    for number in (1, 2):
        of_version = [row["humidity"] for row in TELEMETRY if row["schema_id"] == number]
        present = [item for item in of_version if item is not None]
        assumed = fmean(0.5 if item is None else item for item in of_version)
        item = {"schema_id": number, "records": len(of_version), "with_humidity": len(present)}
        result.append({**item, "assumed": pytest.approx(assumed)})
    return result


def late() -> list[Row]:
    counts = Counter(row["state"] for row in TELEMETRY)
    most = {s: max(row["primary"] for row in TELEMETRY if row["state"] == s) for s in counts}
    return [{"state": s, "records": counts[s], "newest": most[s]} for s in sorted(counts)]


def rooms() -> list[Row]:
    result = []
    for device in range(DEVICES):
        by_room = defaultdict(list)
        for row in _of(device):
            by_room[row["room"]].append(row["temperature"])
        means = {room: pytest.approx(fmean(values)) for room, values in by_room.items()}
        result.append({"secondary": device, **means})
    return result


EXACT = {
    "By ten minutes": by_ten_minutes,
    "The newest of each device": newest,
    "Two streams joined": joined,
    "What held at that time": known_then,
    "Each row beside those before it": beside,
    "Records and arrays": inside,
    "Versions of a schema": versions,
    "What came late": late,
    "Rooms beside each other": rooms,
}


def _of(device: int) -> list[Row]:
    return TELEMETRY[device::DEVICES]


def answer(data: Path, title: str) -> list[Row]:
    _, batches = query_batches(data, QUERIES[title])
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("title", EXACT)
def test_query_of_the_page_answers_what_python_finds(data, title):
    expected = EXACT[title]()
    assert expected
    assert answer(data, title) == expected


def test_each_query_of_the_page_is_tried():
    assert set(QUERIES) == {*EXACT, "What is skipped", "About how many"}


def test_groups_are_skipped_as_the_page_says(data):
    (row,) = answer(data, "What is skipped")
    drawing = " ".join(row["explain_value"].replace("│", " ").split())
    result = re.findall(r"Row Groups Scanned: (\d+) / (\d+)", drawing)
    assert result == [("1", "4")]
    assert "Row Groups Scanned: 1 / 4" in PAGE


def test_about_how_many_is_about_right(data):
    (row,) = answer(data, "About how many")
    values = [row["temperature"] for row in TELEMETRY]
    assert row["temperatures"] == pytest.approx(len(set(values)), rel=0.2)
    assert row["median"] == pytest.approx(median(values), abs=1)


def test_answers_are_copied_into_files(data, tmp_path, monkeypatch):
    (tmp_path / "data").symlink_to(data)
    monkeypatch.chdir(tmp_path)
    exec(PYTHON, {})  # noqa: S102 - the page's own
    seven = pq.read_table("seven.parquet").to_pylist()
    assert [row["address"] for row in seven] == [row["address"] for row in _of(7)]
    with Path("by-device.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["secondary", "temperature"]
    expected = Counter((str(row["secondary"]), row["temperature"]) for row in TELEMETRY)
    assert Counter((one, float(other)) for one, other in rows) == expected
    parts = {path.name for path in Path("rooms").iterdir()}
    assert parts == {"room=hall", "room=lab", "room=roof"}
