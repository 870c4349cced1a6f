"""The ledger of losses: noted once, given up whole, remembered on disk as in memory."""

import pytest

from storage_core import InvalidRequestError
from storage_core.engine.key_value import Batch
from storage_core.format.shard_state import (
    AddressRange,
    ShardState,
    decode_state,
    gap_key,
    lost_key,
)
from storage_core.write.loss import accepted_loss, knows_loss, note_loss

ONE, TWO = AddressRange(5, 9), AddressRange(20, 30)


def remembered(entries: dict[bytes, bytes], batch: Batch) -> dict[bytes, bytes]:
    """Return what lies under the keys once a batch is written."""
    remaining = {
        key: value for key, value in entries.items() if ("default", key) not in batch.deletes
    }
    return remaining | {key: value for _, key, value in batch.puts}


def test_noted_range_is_lost_and_on_disk():
    batch, state = note_loss(ShardState(lost=(TWO,)), ONE)
    assert state == ShardState(lost=(ONE, TWO))
    assert decode_state([(key, value) for _, key, value in batch.puts], 0).lost == (ONE,)


def test_range_given_up_becomes_a_gap_on_disk_as_in_memory():
    noted, lost = note_loss(ShardState(), ONE)
    batch, state = accepted_loss(lost, 5, 9, 0)
    entries = remembered(remembered({}, noted), batch)
    assert decode_state(list(entries.items()), 0) == state == ShardState(gaps=(ONE,))
    assert list(entries) == [gap_key(5)]


def test_several_ranges_are_given_up_together():
    batch, state = accepted_loss(ShardState(lost=(ONE, TWO)), 0, 100, 0)
    assert state == ShardState(gaps=(ONE, TWO))
    assert [key for _, key in batch.deletes] == [lost_key(5), lost_key(20)]


@pytest.mark.parametrize(
    ("start", "end"), [(5, 8), (6, 9), (0, 5), (9, 20), (5, 5), (9, 5), (5, 25), (100, 200)]
)
def test_what_is_not_whole_lost_ranges_is_not_given_up(start, end):
    with pytest.raises(InvalidRequestError, match=r"lost are \[\(5, 9\), \(20, 30\)\]"):
        accepted_loss(ShardState(lost=(ONE, TWO)), start, end, 0)


@pytest.mark.parametrize(
    ("block", "is_known"),
    [((5, 9), True), ((6, 7), True), ((20, 30), True), ((5, 10), False), ((0, 1), False)],
)
def test_known_is_what_is_lost_or_given_up(block, is_known):
    state = ShardState(lost=(ONE,), gaps=(TWO,))
    assert knows_loss(state, AddressRange(*block)) == is_known
