"""Heads: what a plain loop over normal rows would remember of each id."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import INT64_MIN
from storage_core.ids.heads.grouping import group
from storage_core.ids.heads.table import Heads, HeadTable, heads_after
from storage_core.write.states import StateRules, judge
from tests.unit.storage_core.strategies import addresses_one, few, int32_array, int64_array, int64s

Head = tuple[int, int, int]

near_rows = st.lists(st.tuples(st.integers(-6, 6), st.integers(-2, 2)), min_size=1, max_size=20)
near_rules = st.builds(
    StateRules, st.sampled_from([INT64_MIN, -3]), st.sampled_from([4, 9]), st.integers(0, 3)
)
head_dicts = st.dictionaries(
    st.integers(-9, 9), st.tuples(int64s, addresses_one, addresses_one), max_size=8
)


def heads_of(heads: dict[int, Head]) -> Heads:
    """Return a dictionary as columns."""
    ids = sorted(heads)
    values = int64_array([heads[secondary] for secondary in ids]).reshape(-1, 3)
    return Heads(int32_array(ids), values)


def dict_of(heads: Heads) -> dict[int, Head]:
    """Return columns as a dictionary, absent heads left out."""
    columns = (heads.ids, heads.primary, heads.address, heads.last)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {row[0]: row[1:] for row in rows if row[2] >= 0}


@few
@given(st.lists(st.tuples(near_rows, near_rules), min_size=1, max_size=3))
def test_heads_are_what_a_plain_loop_remembers(parts):
    table, plain, address = HeadTable(), dict[int, Head](), 100
    for rows, in_force in parts:
        primaries = int64_array([primary for primary, _ in rows])
        groups = group(int32_array([secondary for _, secondary in rows]))
        before, _ = table.find(groups.ids)
        judged = judge(primaries, groups, before.primary, in_force)
        addresses = np.arange(address, address + len(rows))
        table.put(heads_after(before, groups, judged, primaries, addresses))
        remember_plainly(plain, rows, judged.states, address)
        address += len(rows)
    assert dict_of(table.heads) == plain


def remember_plainly(
    plain: dict[int, Head],
    rows: list[tuple[int, int]],
    states: "np.ndarray | None",
    address: int,
) -> None:
    """Let each normal row move its id's head."""
    for row, (primary, secondary) in enumerate(rows):
        if states is None or states[row] == 0:
            largest, where, _ = plain.get(secondary, (INT64_MIN, -1, -1))
            place = (primary, address + row) if primary >= largest else (largest, where)
            plain[secondary] = (*place, address + row)


@few
@given(st.lists(head_dicts, max_size=5), st.lists(st.integers(-12, 12), min_size=1, unique=True))
def test_table_is_a_dictionary(puts, requested):
    table, plain = HeadTable(), dict[int, Head]()
    for heads in puts:
        table.put(heads_of(heads))
        plain |= heads
    assert dict_of(table.heads) == plain
    stored, present = table.find(int32_array(sorted(requested)))
    assert present.tolist() == [secondary in plain for secondary in sorted(requested)]
    assert dict_of(stored) == {key: plain[key] for key in requested if key in plain}
    assert len(table) == len(plain)


@few
@given(head_dicts, st.integers(0, 5))
def test_what_the_table_gave_out_does_not_change_with_it(first, delta):
    table = HeadTable()
    table.put(heads_of(first))
    given_out = [table.heads, table.find(heads_of(first).ids)[0]]
    table.put(heads_of(dict.fromkeys(first, (delta, delta, delta))))
    assert [dict_of(heads) for heads in given_out] == [first, first]


def test_what_was_put_does_not_change_the_table_afterwards():
    table, heads = HeadTable(), heads_of({1: (5, 6, 7)})
    for _ in range(2):
        table.put(heads)
    heads.primary[:] = 99
    assert dict_of(table.heads) == {1: (5, 6, 7)}


@few
@given(st.dictionaries(st.integers(0, 50), st.integers(0, 40), min_size=1), st.integers(0, 40))
def test_eviction_never_forgets_a_fresh_head(lasts, written_through):
    table = HeadTable(capacity=8)
    table.put(heads_of({key: (0, 0, last) for key, last in lasts.items()}))
    table.evict(written_through)
    fresh = {key for key, last in lasts.items() if last >= written_through}
    assert fresh <= set(dict_of(table.heads))


def test_eviction_goes_down_to_half_and_takes_the_oldest():
    table = HeadTable(capacity=8)
    table.put(heads_of({key: (0, 0, key) for key in range(10)}))
    table.evict(written_through=100)
    assert sorted(dict_of(table.heads)) == [6, 7, 8, 9]


def test_table_within_its_capacity_keeps_everything():
    table = HeadTable(capacity=8)
    table.put(heads_of({key: (0, 0, key) for key in range(8)}))
    table.evict(written_through=100)
    assert len(table) == 8


def many_heads(ids: range) -> Heads:
    """Return heads of these ids, one of each."""
    return Heads(np.array(ids, dtype=np.int32), np.full((len(ids), 3), 5))


@pytest.mark.parametrize("asks", [False, True], ids=["stores alone", "asks between"])
def test_heads_of_new_ids_take_no_copy_of_those_there_are(asks):
    table = HeadTable()
    table.put(many_heads(range(100_000)))
    assert len(table) == 100_000
    tracemalloc.start()
    try:
        for new in range(100_000, 100_640):
            table.put(many_heads(range(new, new + 1)))
            if asks:
                table.find(int32_array([7, new]))
        # All of them are 2.8 MB.
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    assert len(table) == 100_640


def test_fresh_heads_and_an_eviction_take_no_copy_of_those_there_are():
    table = HeadTable()
    table.put(many_heads(range(100_000)))
    assert len(table) == 100_000
    tracemalloc.start()
    try:
        for new in range(100_000, 100_064):
            table.put(Heads(int32_array([new]), np.full((1, 3), new)))
            assert table.fresh(new).ids.tolist() == [new]
            table.evict(new + 1)
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


@few
@given(st.lists(head_dicts, min_size=18, max_size=40), st.integers(-1, 40))
def test_table_of_several_parts_is_a_dictionary(puts, written_through):
    table, plain = HeadTable(), dict[int, Head]()
    table.put(many_heads(range(100, 200)))
    plain |= dict.fromkeys(range(100, 200), (5, 5, 5))
    for last, heads in enumerate(puts):
        newer = {key: (primary, address, last) for key, (primary, address, _) in heads.items()}
        table.put(heads_of(newer))
        plain |= newer
        if last % 5 == 0:
            stored, present = table.find(int32_array(range(-9, 110)))
            assert dict_of(stored) == {key: plain[key] for key in range(-9, 110) if key in plain}
            assert present.tolist() == [key in plain for key in range(-9, 110)]
    fresh = dict_of(table.fresh(written_through))
    assert fresh == {key: head for key, head in plain.items() if head[2] >= written_through}
    assert dict_of(table.heads) == plain
