"""Judging by vectors is judging row by row: the table of the module's text as a plain loop."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, saturating_add
from storage_core.format.record import State
from storage_core.ids.heads.grouping import group
from storage_core.write.states import StateRules, judge
from tests.unit.storage_core.strategies import few, int32_array, int32s, int64_array, int64s, many

NO_RULES = StateRules(INT64_MIN, INT64_MAX, 0)
Result = tuple[list[int], dict[int, int], int]

near = st.integers(-8, 8)
primaries = st.one_of(near, near, int64s)
ids = st.one_of(st.integers(-2, 2), st.just(7), st.integers(0, 2000), int32s)
batches = st.one_of(
    st.lists(st.tuples(primaries, ids), min_size=1, max_size=30),
    st.lists(st.tuples(near, st.just(1)), min_size=30, max_size=100),
    st.lists(st.tuples(st.just(3), st.integers(0, 2)), min_size=1, max_size=40),
    st.lists(st.tuples(near, st.sampled_from([INT32_MIN, -1, 0, INT32_MAX])), min_size=1),
)
rules = st.builds(
    StateRules,
    st.sampled_from([INT64_MIN, -5, 0, 3, INT64_MAX]),
    st.sampled_from([INT64_MAX, 6, 2, -4, INT64_MIN]),
    st.sampled_from([0, 1, 3, 2**40, INT64_MAX]),
)
known_heads = st.dictionaries(st.integers(-2, 7), st.one_of(near, int64s), max_size=6)


def judge_plainly(
    rows: Sequence[tuple[int, int]], heads: Mapping[int, int], in_force: StateRules
) -> Result:
    """Judge one row after the other."""
    states, maxima, absorbed = [], dict(heads), 0
    for primary, secondary in rows:
        largest = maxima.get(secondary, INT64_MIN)
        state = State.NORMAL
        if primary < in_force.floor:
            state = State.EXPIRED
        elif primary > in_force.ahead_limit:
            state = State.AHEAD
        elif primary >= largest:
            maxima[secondary] = primary
        elif primary >= largest - in_force.jitter:
            absorbed += 1
        else:
            state = State.LATE
        states.append(state)
    present = {secondary: maxima.get(secondary, INT64_MIN) for _, secondary in rows}
    return states, present, absorbed


def judge_by_vectors(
    rows: Sequence[tuple[int, int]], heads: Mapping[int, int], in_force: StateRules
) -> Result:
    """Judge a batch as the shard does."""
    groups = group(int32_array([secondary for _, secondary in rows]))
    before = int64_array([heads.get(secondary, INT64_MIN) for secondary in groups.ids.tolist()])
    judged = judge(int64_array([primary for primary, _ in rows]), groups, before, in_force)
    states = [0] * len(rows) if judged.states is None else judged.states.tolist()
    maxima = dict(zip(groups.ids.tolist(), judged.maxima.tolist(), strict=True))
    return states, maxima, judged.absorbed


@many
@given(batches, known_heads, rules)
def test_vectors_decide_as_the_loop_does(rows, heads, in_force):
    assert judge_by_vectors(rows, heads, in_force) == judge_plainly(rows, heads, in_force)


@few
@given(batches, known_heads, rules, st.integers(0, 30))
def test_batch_cut_in_two_is_judged_as_one(rows, heads, in_force, cut):
    states, maxima, absorbed = [], dict(heads), 0
    for part in (rows[:cut], rows[cut:]):
        if part:
            judged = judge_by_vectors(part, maxima, in_force)
            states += judged[0]
            maxima.update(judged[1])
            absorbed += judged[2]
    assert (states, absorbed) == judge_by_vectors(rows, heads, in_force)[::2]


def test_more_ids_than_sixteen_bits_are_told_apart():
    rows = [(value % 5, value * 3) for value in range(70_000)] + [(0, 3)]
    assert judge_by_vectors(rows, {}, NO_RULES) == judge_plainly(rows, {}, NO_RULES)


@few
@given(int64s, int64s)
def test_sums_saturate_at_both_ends(a, b):
    assert saturating_add(a, b) == min(max(a + b, INT64_MIN), INT64_MAX)
