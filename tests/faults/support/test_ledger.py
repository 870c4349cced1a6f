"""Goal: the ledger notices every way of breaking a promise.

Method: a whole store as plain lists, one thing spoiled at a time.
"""

from copy import deepcopy

import pytest

from tests.faults.support.ledger import BrokenPromiseError, Ledger
from tests.faults.support.workload import (
    FEED_SHARD,
    SHARDS,
    TRANSACTION_LANES,
    Stored,
    feed_row,
    is_feed_gap,
    lane_row,
    shard_of,
    transaction_rows,
)

LANE = 3
TRANSACTION = 1
PROMISED = 40


def store() -> dict[int, list[Stored]]:
    """Return the rows of a lane, a transaction and the feed, as they should stand."""
    rows = [lane_row(LANE, number) for number in range(PROMISED)]
    shards: dict[int, list[Stored]] = {shard: [] for shard in range(SHARDS)}
    for row in [*rows, *transaction_rows(TRANSACTION)]:
        add(shards[shard_of(row)], row)
    for address in range(30):
        if not is_feed_gap(address):
            add(shards[FEED_SHARD], feed_row(address), address)
    return shards


def add(shard, row, address=None) -> None:
    """Put a row at the end of a shard, late if it is."""
    head = max((s.row.primary for s in shard if s.row.secondary == row.secondary), default=None)
    late = head is not None and row.primary < head
    shard.append(Stored(len(shard) if address is None else address, row, late))


def check(shards, committed=None) -> None:
    """Compare with what was promised: the lane, the transaction, the feed to 30."""
    ends = {shard: rows[-1].address + 1 if rows else 0 for shard, rows in shards.items()}
    ledger = Ledger(lanes={LANE: PROMISED}, transactions={TRANSACTION}, committed={FEED_SHARD: 30})
    ledger.check(shards, committed or ends)


def test_whole_store_passes() -> None:
    check(store())


def test_rows_beyond_the_promise_pass() -> None:
    shards = store()
    for number in range(PROMISED, PROMISED + 9):
        row = lane_row(LANE, number)
        add(shards[shard_of(row)], row)
    check(shards)


def lose_last_of_lane(shards) -> None:
    rows = shards[0]
    last = max(i for i, s in enumerate(rows) if s.row.primary % 100_000 == LANE)
    del rows[last]


def lose_in_the_middle(shards) -> None:
    del shards[0][5]


def double(shards) -> None:
    add(shards[0], shards[0][0].row)


def reorder(shards) -> None:
    rows = shards[1]
    rows[2], rows[3] = rows[2]._replace(row=rows[3].row), rows[3]._replace(row=rows[2].row)


def alter_payload(shards) -> None:
    rows = shards[0]
    rows[4] = rows[4]._replace(row=rows[4].row._replace(payload=b"altered"))


def turn_tombstone_into_empty(shards) -> None:
    rows = shards[0]
    index = next(i for i, stored in enumerate(rows) if stored.row.payload is None)
    rows[index] = rows[index]._replace(row=rows[index].row._replace(payload=b""))


def lose_half_a_transaction(shards) -> None:
    shards[1] = [s for s in shards[1] if s.row.primary % 100_000 < TRANSACTION_LANES]


def lose_feed_row(shards) -> None:
    del shards[FEED_SHARD][7]


def lose_feed_tail(shards) -> None:
    del shards[FEED_SHARD][-4:]


def write_to_the_empty_shard(shards) -> None:
    add(shards[3], lane_row(LANE, 0))


def call_a_late_row_normal(shards) -> None:
    rows = shards[FEED_SHARD]
    index = next(i for i, stored in enumerate(rows) if stored.late)
    rows[index] = rows[index]._replace(late=False)


def repeat_an_address(shards) -> None:
    rows = shards[0]
    rows[5] = rows[5]._replace(address=rows[4].address)


@pytest.mark.parametrize(
    "spoil",
    [
        lose_last_of_lane,
        lose_in_the_middle,
        double,
        reorder,
        alter_payload,
        turn_tombstone_into_empty,
        lose_half_a_transaction,
        lose_feed_row,
        lose_feed_tail,
        write_to_the_empty_shard,
        call_a_late_row_normal,
        repeat_an_address,
    ],
)
def test_broken_promise_is_noticed(spoil) -> None:
    shards = deepcopy(store())
    spoil(shards)
    with pytest.raises(BrokenPromiseError):
        check(shards)


def test_row_above_committed_is_noticed() -> None:
    shards = store()
    ends = {shard: rows[-1].address if rows else 0 for shard, rows in shards.items()}
    with pytest.raises(BrokenPromiseError):
        check(shards, ends)
