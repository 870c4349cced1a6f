"""Newest versions: rows that come piece by piece are held only while they may be among them."""

import numpy as np
import pyarrow as pa

from storage_core.read.newest.newest_versions import Contest, NewestSoFar


def piece(first: int, ids: int, payload: bytes = b"x") -> pa.RecordBatch:
    """Return a row of primary 1 for each id, at addresses from one on."""
    return pa.RecordBatch.from_pydict(
        {
            "secondary": pa.array(np.arange(ids, dtype=np.int32)),
            "primary": pa.array([1] * ids, pa.int64()),
            "address": pa.array(np.arange(first, first + ids)),
            "payload": pa.array([payload] * ids, pa.binary()),
        }
    )


def held_for(pieces: int, ids: int, payload: bytes = b"x") -> tuple[int, pa.RecordBatch | None]:
    """Return how many rows were held at most, and the newest."""
    held = []
    contest = Contest("primary", has_keys=False)

    def reduced(rows: pa.RecordBatch) -> pa.RecordBatch:
        held.append(rows.num_rows)
        return contest.in_shard(rows)

    newest = NewestSoFar(reduced)
    for number in range(pieces):
        newest.add(piece(number * ids, ids, payload))
    return max(held, default=0), newest.rows()


def test_rows_that_lost_are_let_go():
    held, newest = held_for(pieces=100, ids=5000)
    assert newest is not None
    assert newest["address"].to_pylist() == [*range(99 * 5000, 100 * 5000)]
    assert held <= 2**16 + 5000


def test_rows_that_lost_are_let_go_by_their_bytes_too():
    held, newest = held_for(pieces=12, ids=8, payload=b"x" * 2**20)
    assert newest is not None
    assert newest.num_rows == 8
    assert held <= 64 + 8


def test_many_newest_are_not_looked_through_with_each_piece():
    looked = []
    contest = Contest("primary", has_keys=False)

    def reduced(rows: pa.RecordBatch) -> pa.RecordBatch:
        looked.append(rows.num_rows)
        return contest.in_shard(rows)

    newest = NewestSoFar(reduced)
    for number in range(400):
        rows = piece(0, 2000)
        primary = pa.array([number] * 2000, pa.int64())
        newest.add(rows.set_column(1, "primary", primary))
    assert newest.rows() is not None
    assert looked[-1] == 400 * 2000
    assert sum(looked) < 3 * looked[-1]
