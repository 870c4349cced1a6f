"""Positions: what goes to JSON comes back, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import InvalidRequestError, Position, ShardPosition
from tests.unit.storage_core.strategies import addresses_one, few

positions = st.builds(
    Position,
    st.text(),
    st.dictionaries(st.integers(0, 4095), st.builds(ShardPosition, st.text(), addresses_one)),
)


@few
@given(positions)
def test_position_comes_back(position):
    assert Position.from_json(position.to_json()) == position


@few
@given(positions)
def test_equal_positions_have_one_text(position):
    backwards = Position(position.incarnation, dict(reversed(position.shards.items())))
    assert backwards.to_json() == position.to_json()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"incarnation": "a"}',
        '{"incarnation": "a", "shards": []}',
        '{"incarnation": "a", "shards": {"x": ["l", 1]}}',
        '{"incarnation": "a", "shards": {"0": ["l"]}}',
        '{"incarnation": "a", "shards": {"0": ["l", "x"]}}',
        '{"incarnation": "a", "shards": {"0": 5}}',
        "[" * 10**5,
    ],
)
def test_text_that_is_no_position_is_refused(text):
    with pytest.raises(InvalidRequestError, match="not a position"):
        Position.from_json(text)
