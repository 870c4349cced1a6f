"""The ledger of losses: noted once, given up whole, remembered on disk as in memory."""

import pytest

from storage_core.engine.key_value import Batch
from storage_core.format.shard_state import (
    AddressRange,
    ShardState,
)
from storage_core.write.loss import knows_loss

ONE, TWO = AddressRange(5, 9), AddressRange(20, 30)


def remembered(entries: dict[bytes, bytes], batch: Batch) -> dict[bytes, bytes]:
    """Return what lies under the keys once a batch is written."""
    remaining = {
        key: value for key, value in entries.items() if ("default", key) not in batch.deletes
    }
    return remaining | {key: value for _, key, value in batch.puts}


@pytest.mark.parametrize(
    ("block", "is_known"),
    [((5, 9), True), ((6, 7), True), ((20, 30), True), ((5, 10), False), ((0, 1), False)],
)
def test_known_is_what_is_lost_or_given_up(block, is_known):
    state = ShardState(lost=(ONE,), gaps=(TWO,))
    assert knows_loss(state, AddressRange(*block)) == is_known
