"""Roll-ups against plain Python, row by row: however dealt, and in whatever steps merged."""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streaming_jobs.jobs.rollup.rollups import (
    Measurements,
    merge,
    newest,
    only,
    roll_up,
    schema_of,
    together,
    with_starts,
)

HOUR = 1000
ID = pa.int32()
Row = tuple[object, int, float, int, int]


def measured(rows: Sequence[Row], kind: Any = ID) -> pa.Table:
    ids, times, values, shards, offsets = zip(*rows, strict=True) if rows else ((),) * 5
    when = np.array(times, np.int64)
    return roll_up(
        Measurements(
            pa.array(ids, kind),
            when // HOUR * HOUR,
            when,
            np.array(values, np.float64),
            np.array(shards, np.int32),
            np.array(offsets, np.int64),
        )
    )


def expected(rows: Sequence[Row]) -> dict[tuple[object, int], dict[str, float]]:
    windows = defaultdict(list)
    for row in rows:
        windows[row[0], row[1] // HOUR * HOUR].append(row)
    expected_rows = {}
    for window, inside in windows.items():
        ordered = sorted(inside, key=lambda row: (row[1], row[3], row[4]))
        least = min(ordered, key=lambda row: (row[2], row[1]))
        most = min(ordered, key=lambda row: (-row[2], row[1]))
        expected_rows[window] = {
            "count": len(inside),
            "sum": sum(row[2] for row in inside),
            "sum_sq": sum(row[2] ** 2 for row in inside),
            "min": least[2],
            "min_time": least[1],
            "max": most[2],
            "max_time": most[1],
            "first": ordered[0][2],
            "first_time": ordered[0][1],
            "last": ordered[-1][2],
            "last_time": ordered[-1][1],
        }
    return expected_rows


def by_window_of(rollups: pa.Table) -> dict[tuple[object, int], dict[str, float]]:
    rows = rollups.to_pylist()
    by_window = {(row.pop("id"), row.pop("start")): row for row in rows}
    assert len(by_window) == rollups.num_rows
    return {
        window: {name: row[name] for name in row if not name.endswith(("_shard", "_offset"))}
        for window, row in by_window.items()
    }


def random_rows(draw: random.Random, count: int, ids: int = 5) -> list[Row]:
    """Return rows with many ties; of whole values, so that sums are exact."""
    return [
        (
            draw.randrange(ids),
            draw.randrange(0, 5000, 50),
            float(draw.randint(-9, 9)),
            shard,
            offset,
        )
        for offset in range(count)
        for shard in [draw.randrange(3)]
    ]


@pytest.mark.parametrize("seed", range(40))
def test_rows_dealt_and_merged_in_any_way_come_to_the_same(seed):
    draw = random.Random(seed)
    rows = random_rows(draw, draw.choice([1, 3, 40, 300]), draw.choice([1, 5, 200]))
    shuffled = draw.sample(rows, len(rows))
    cuts = sorted(draw.randrange(len(rows) + 1) for _ in range(4))
    parts = [measured(shuffled[a:b]) for a, b in zip((0, *cuts), (*cuts, None), strict=True)]
    draw.shuffle(parts)
    once = merge(together(parts))
    in_steps = merge(together([merge(together(parts[:3])), merge(together(parts[3:]))]))
    assert by_window_of(once) == by_window_of(in_steps) == expected(rows)
    assert once.equals(in_steps)


def test_keys_and_no_key_are_ids_like_others():
    rows = [(b"a", 1, 1.0, 0, 0), (None, 2, 2.0, 0, 1), (b"a", 3, 3.0, 0, 2), (None, 4, 5.0, 0, 3)]
    by_window = by_window_of(measured(rows, pa.binary()))
    assert {window[0]: row["sum"] for window, row in by_window.items()} == {b"a": 4, None: 7}


def test_first_and_last_of_one_millisecond_go_by_shard_then_offset():
    rows = [(1, 5, 10.0, 1, 0), (1, 5, 20.0, 0, 9), (1, 5, 30.0, 0, 3), (1, 5, 40.0, 1, 7)]
    (row,) = by_window_of(measured(rows)).values()
    assert (row["first"], row["last"]) == (30.0, 40.0)


def test_infinite_values_and_sums_beyond_all_numbers_raise_no_warning():
    rows = [(1, 1, np.inf, 0, 0), (1, 2, -np.inf, 0, 1), (1, 3, 1e308, 0, 2), (1, 4, 1e308, 0, 3)]
    (row,) = by_window_of(measured(rows)).values()
    assert (row["min"], row["max"], row["count"]) == (-np.inf, np.inf, 4)
    assert np.isnan(row["sum"])


def test_wide_ids_are_told_apart():
    rows = [(-(2**31), 1, 1.0, 0, 0), (2**31 - 1, 1, 2.0, 0, 1), (0, 1, 3.0, 0, 2)]
    assert by_window_of(measured(rows)) == expected(rows)


def test_newest_is_the_one_that_stands_last():
    old, new = (measured([(1, 0, value, 0, 0), (2, 0, value, 0, 0)]) for value in (1.0, 2.0))
    latest = newest(together([old, new, measured([(1, 0, 3.0, 0, 0)])]))
    assert {window[0]: row["sum"] for window, row in by_window_of(latest).items()} == {
        1: 3.0,
        2: 2.0,
    }


def test_only_those_whose_id_and_window_are_wanted_are_left():
    all_of_them = measured(random_rows(random.Random(1), 200))
    wanted = all_of_them.take([0, 3, 4])
    assert only(all_of_them, with_starts(wanted, wanted.column("start").to_numpy())) == wanted
    assert only(all_of_them, all_of_them.slice(0, 0)).num_rows == 0


def test_nothing_comes_to_nothing():
    nothing = measured([])
    assert nothing == merge(nothing) == schema_of(pa.int32()).empty_table()
    assert newest(nothing).num_rows == only(nothing, nothing).num_rows == 0
