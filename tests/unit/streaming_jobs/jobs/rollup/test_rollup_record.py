"""The record of a roll-up: what is kept comes back, and its schema is the one that was released."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import ForeignDataError
from storage_core.avro import encode_batch, frame_of
from streaming_jobs.jobs.rollup.calendar import LEVELS, Calendar
from streaming_jobs.jobs.rollup.rollup_record import (
    SCHEMA,
    records_of,
    rollup_schema,
    rollups_of,
    zone_and_measure_of,
)
from streaming_jobs.jobs.rollup.rollups import (
    COLUMNS,
    Measurements,
    merge,
    roll_up,
    together,
    with_starts,
)
from tests.tidy.tree import ROOT

BERLIN = Calendar.of("Europe/Berlin")
HOUR_MS = 3_600_000
ID = pa.int32()
# Two in the morning, before clocks are set forward.
FIRST_MS = 1_743_292_800_000


def hours(*ids: int | bytes | None, kind: Any = ID, count: int = 40) -> pa.Table:
    """Return roll-ups of some hours, of ids by turns."""
    places = np.arange(count)
    times = FIRST_MS + places * HOUR_MS // 3
    whose: Any = pa.array([ids[number % len(ids)] for number in range(count)], kind)
    starts = BERLIN.starts("hour", times)
    shards = (places % 2).astype(np.int32)
    return roll_up(Measurements(whose, starts, times, np.cos(places), shards, places))


def rows_of(rollups: pa.Table, level="hour") -> pa.Table:
    """Return rows as a stream shows them that keeps roll-ups."""
    has_keys = pa.types.is_binary(rollups.column("id").type)
    frame = frame_of(rollup_schema(), None)
    bodies = encode_batch(
        records_of(rollups, level, BERLIN, "temperature"), rollup_schema(), frame=frame
    )
    return pa.table(
        {
            "key" if has_keys else "secondary": rollups.column("id"),
            "primary": rollups.column("start"),
            "payload": bodies,
        }
    )


def plain(rollups: pa.Table) -> pa.Table:
    """Return what the record keeps."""
    places = ("_shard", "_offset")
    return rollups.select([name for name in rollups.column_names if not name.endswith(places)])


def test_schema_is_the_released_one():
    file = ROOT / "schemas/avro/rollups/rollup.v1.avsc"
    assert json.loads(file.read_text()) == SCHEMA


@pytest.mark.parametrize(
    ("ids", "kind"), [((1, 2, -7), ID), ((b"a", b"", None), pa.binary())], ids=["ids", "keys"]
)
def test_what_is_kept_comes_back(ids, kind):
    rollups = hours(*ids, kind=kind)
    back = rollups_of(rows_of(rollups), "rolled")
    assert plain(back).equals(plain(rollups))
    assert back.schema.names == ["id", *COLUMNS]


def test_record_tells_its_window_zone_and_measure():
    rollups = hours(1)
    records = records_of(rollups, "hour", BERLIN, "temperature").to_pylist()
    starts = [record["window_start"] for record in records]
    assert [record["window_end"] for record in records[:-1]] == starts[1:]
    assert {(r["level"], r["zone"], r["measure"]) for r in records} == {
        ("hour", "Europe/Berlin", "temperature")
    }
    payload = rows_of(rollups).column("payload")[0].as_py()
    assert zone_and_measure_of(payload, "rolled") == ("Europe/Berlin", "temperature")


@pytest.mark.parametrize("level", LEVELS)
def test_windows_below_merge_into_the_window_once_they_were_kept(level):
    whole = hours(1, 2)
    stored = [rollups_of(rows_of(whole.slice(at, 5)), "rolled") for at in range(0, len(whole), 5)]
    raised = [
        with_starts(part, BERLIN.starts(level, part.column("start").to_numpy()))
        for part in (whole, *stored)
    ]
    exact = ["id", "start", "count", "min", "min_time", "max", "first", "last", "last_time"]
    assert merge(together(raised[1:])).select(exact) == merge(raised[0]).select(exact)


def test_no_rows_are_no_rollups():
    assert rollups_of(rows_of(hours(1)).slice(0, 0), "rolled").num_rows == 0


@pytest.mark.parametrize("payload", [b"", b"{}", b"\xc3\x01" + b"\0" * 40, None])
def test_rows_of_something_else_are_refused(payload):
    rows = pa.table({"secondary": [1], "primary": [0], "payload": pa.array([payload], pa.binary())})
    with pytest.raises(ForeignDataError, match=r"no roll-ups; name another one with --into"):
        rollups_of(rows, "rolled")


def test_cut_record_is_refused():
    rows = rows_of(hours(1, count=1))
    cut = rows.column("payload")[0].as_py()[:-1]
    rows = rows.set_column(2, "payload", pa.array([cut], pa.binary()))
    with pytest.raises(ForeignDataError, match="a row is no roll-up"):
        rollups_of(rows, "rolled")
