"""Heads of rows, and heads merged of heads, against a plain dictionary."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State
from storage_core.lake.heads.run_heads import heads_above, heads_of_rows, merged_heads, no_heads

SECONDARIES = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2)
KEYS = st.none() | st.binary(max_size=3)
PRIMARIES = st.integers(-2, 2) | st.sampled_from([INT64_MIN, INT64_MAX])
STATES = st.sampled_from([State.NORMAL, State.NORMAL, State.LATE, State.AHEAD, State.EXPIRED])
Row = dict[str, Any]


@st.composite
def rows(draw: st.DrawFn, *, has_keys: bool) -> list[Row]:
    """Rows of some ids, each with an address of its own."""
    name, ids = ("key", KEYS) if has_keys else ("secondary", SECONDARIES)
    pairs = draw(st.lists(st.tuples(ids, PRIMARIES, STATES), max_size=30))
    return [
        {name: owner, "primary": primary, "address": address, "state": int(state)}
        for address, (owner, primary, state) in enumerate(draw(st.permutations(pairs)))
    ]


def table_of(rows: list[Row], *, has_keys: bool) -> pa.Table:
    ids = pa.field("key", pa.binary()) if has_keys else pa.field("secondary", pa.int32())
    numbers = [pa.field("primary", pa.int64()), pa.field("address", pa.int64())]
    return pa.Table.from_pylist(rows, pa.schema([ids, *numbers, pa.field("state", pa.uint8())]))


def plain_heads(rows: list[Row], *, has_keys: bool) -> dict[Any, tuple[int, int, int]]:
    """Return the heads of rows by id, as one writes them down."""
    heads: dict[Any, tuple[int, int, int]] = {}
    for row in sorted(rows, key=lambda row: row["address"]):
        name = row["key" if has_keys else "secondary"]
        primary, address, last = heads.get(name, (INT64_MIN, -1, -1))
        if row["state"] == State.NORMAL:
            last = row["address"]
            if row["primary"] >= primary:
                primary, address = row["primary"], row["address"]
        heads[name] = primary, address, last
    return heads


def as_dict(heads: pa.Table) -> dict[Any, tuple[int, int, int]]:
    """Return heads by id; there is one of each, and they ascend."""
    rows = [tuple(row.values()) for row in heads.to_pylist()]
    ids = [row[0] for row in rows]
    assert ids == sorted(set(ids), key=lambda owner: (owner is not None, owner))
    return {owner: (primary, address, last) for owner, primary, address, last in rows}


@pytest.mark.parametrize("has_keys", [False, True])
@given(data=st.data())
def test_heads_are_those_of_a_dictionary(data: st.DataObject, has_keys: bool) -> None:
    some = data.draw(rows(has_keys=has_keys))
    heads = heads_of_rows(table_of(some, has_keys=has_keys), has_keys=has_keys)
    assert as_dict(heads) == plain_heads(some, has_keys=has_keys)
    assert heads.schema == no_heads(has_keys=has_keys).schema


@pytest.mark.parametrize("has_keys", [False, True])
@given(data=st.data())
def test_merged_heads_are_those_of_all_rows(data: st.DataObject, has_keys: bool) -> None:
    some = data.draw(rows(has_keys=has_keys))
    pieces = data.draw(st.lists(st.lists(st.sampled_from(some or [{}])), max_size=4))
    pieces = [[row for row in piece if row] for piece in pieces]
    heads = [
        heads_of_rows(table_of(piece, has_keys=has_keys), has_keys=has_keys)
        for piece in [*pieces, some]
    ]
    assert as_dict(merged_heads(heads)) == plain_heads(some, has_keys=has_keys)


@given(some=rows(has_keys=False), floor=PRIMARIES)
def test_heads_below_the_floor_are_left_out(some: list[Row], floor: int) -> None:
    heads = heads_of_rows(table_of(some, has_keys=False), has_keys=False)
    of_live = {
        owner: head
        for owner, head in plain_heads(some, has_keys=False).items()
        if head[0] >= floor and head[1] >= 0
    }
    assert as_dict(heads_above(heads, floor)) == of_live


@given(some=rows(has_keys=True), floor=PRIMARIES)
def test_keys_stay_whatever_has_expired(some: list[Row], floor: int) -> None:
    heads = heads_of_rows(table_of(some, has_keys=True), has_keys=True)
    assert heads_above(heads, floor).equals(heads)
