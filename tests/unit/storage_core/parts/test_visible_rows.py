"""One rule of which rows are visible: its renderings and the choice of files fit a plain loop."""

from time import process_time

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.record import State
from storage_core.format.shard_state import AddressRange
from storage_core.parts.visible_rows import (
    COMPARED_COLUMNS,
    as_condition,
    as_sql,
    may_hide_rows,
    visible_rows,
)

NUMBERS = st.integers(0, 20)
GAPS = st.lists(st.tuples(NUMBERS, NUMBERS).filter(lambda ends: ends[0] < ends[1]), max_size=6)
PARTS = st.builds(
    lambda floor, cut, gaps: ShardParts(
        21, (), floor, cut, tuple(AddressRange(start, end) for start, end in gaps)
    ),
    NUMBERS,
    NUMBERS,
    GAPS,
)
SHARDS = st.dictionaries(st.integers(0, 6), PARTS, min_size=1)
ROWS = st.lists(st.tuples(st.integers(0, 6), NUMBERS, NUMBERS, st.integers(0, 3)), max_size=30)


def is_visible(row: tuple[int, int, int, int], shards: dict[int, ShardParts]) -> bool:
    """Tell as GUARANTEES says it, of a row of one of the shards."""
    shard, primary, address, state = row
    parts = shards[shard]
    is_lost = any(gap.start <= address < gap.end for gap in parts.gaps)
    return (
        state != State.EXPIRED and primary >= parts.floor and address >= parts.cut and not is_lost
    )


@given(SHARDS, ROWS)
def test_all_renderings_agree_with_a_plain_loop(shards, rows):
    rows = [row for row in rows if row[0] in shards]
    visible = [row for row in rows if is_visible(row, shards)]
    rule = visible_rows(shards)
    columns = np.array(rows, np.int64).reshape(-1, len(COMPARED_COLUMNS)).T
    by_name = dict(zip(COMPARED_COLUMNS, columns, strict=True))
    mask = as_condition(rule, by_name.__getitem__)
    assert [row for row, holds in zip(rows, mask, strict=True) if holds] == visible
    values = ", ".join(map(str, [*rows, (9, -1, -1, int(State.EXPIRED))]))
    names = ", ".join(f'"{name}"' for name in COMPARED_COLUMNS)
    query = f"SELECT * FROM (VALUES {values}) AS t({names}) WHERE {as_sql(rule)}"
    with duckdb.connect() as connection:
        assert sorted(connection.sql(query).fetchall()) == sorted(visible)


@given(PARTS, st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 3)), min_size=1, max_size=3))
def test_part_that_may_hide_no_rows_has_only_visible_ones(parts, rows):
    primaries, addresses, states = zip(*rows, strict=True)
    addresses_and_times = min(addresses), 0, max(addresses), min(primaries), max(primaries)
    part = PartEntry(*addresses_and_times, len(rows), 0, 0, 0, any(states), b"", "", 0, b"")
    is_whole = all(is_visible((0, *row), {0: parts}) for row in rows)
    assert is_whole or may_hide_rows(part, parts)


def seconds_of(shards: dict[int, ShardParts]) -> float:
    """Return what processor time DuckDB takes to plan and ask the rule of a few rows."""
    with duckdb.connect() as connection:
        names = ", ".join(f'"{name}" BIGINT' for name in COMPARED_COLUMNS)
        connection.execute(f"CREATE TABLE t ({names})")
        begun = process_time()
        connection.execute(f"SELECT * FROM t WHERE {as_sql(visible_rows(shards))}").fetchall()
        return process_time() - begun


def parts_with(gaps: int) -> ShardParts:
    """Return a shard with so many gaps."""
    ranges = tuple(AddressRange(10 * gap, 10 * gap + 2) for gap in range(gaps))
    return ShardParts(10 * gaps, (), 1, 1, ranges)


@pytest.mark.parametrize(
    ("few", "many"),
    [
        ({0: parts_with(200)}, {0: parts_with(2000)}),
        ({n: parts_with(1) for n in range(200)}, {n: parts_with(1) for n in range(2000)}),
    ],
    ids=["gaps", "shards"],
)
def test_planning_costs_in_proportion_to_gaps_and_shards(few, many):
    # A list of conditions costs a hundred times as much, and more; of three the least.
    assert min(seconds_of(many) for _ in range(3)) < 40 * max(seconds_of(few), 0.005)
