"""The rows that the fault tests write.

Each can be derived again from what names it: a row read back proves itself, a missing one has a
name.

Three kinds of source write into a stream of four shards:

* A **lane** is one thread of one writer, numbering its rows from 0. Its rows go to shards 0 and
  1, as their secondary tells. All rows of a lane that a shard holds are the first so many of it,
  in order.
* A **transaction** is a lane whose rows are there together or not at all. * The **feed** writes
  shard 2 with addresses of its own, as Kafka offsets would: a row follows from its address
  alone, every fifth address is a gap, and batches overlap what is there already.

Shard 3 stays empty. A row's primary tells lane and number; tombstones and empty payloads occur
in all sources. Rows of different lanes share secondaries, so that some arrive late.
"""

from typing import NamedTuple

SHARDS = 4
FEED_SHARD = 2
EMPTY_SHARD = 3
TRANSACTION_LANES = 50_000
"""Lanes from here on are transactions; the transaction's number is what is above."""

_LANES_MAX = 100_000
_BASE = 1_500_000_000_000


class Row(NamedTuple):
    """What a caller hands to `append`."""

    primary: int
    secondary: int
    payload: bytes | None
    version: int


class Stored(NamedTuple):
    """A row as read back from a shard."""

    address: int
    row: Row
    late: bool


def _payload(lane: int, number: int) -> bytes | None:
    if number % 13 == 5:
        return None
    size = 4096 if number % 101 == 7 else (number * 37 + lane) % 180 * (number % 13 != 6)
    pattern = (lane << 32 | number).to_bytes(8, "big")
    return (pattern * (size // 8 + 1))[:size]


def _secondary(lane: int, number: int) -> int:
    spread = (number * number + lane) % 16
    return (spread >> 1) << 2 | (spread & 1)


def lane_row(lane: int, number: int) -> Row:
    """Return a row of a lane or transaction."""
    primary = _BASE + number * _LANES_MAX + lane
    return Row(primary, _secondary(lane, number), _payload(lane, number), number % 3)


def shard_of_lane(lane: int, number: int) -> int:
    """Return the shard that a row of a lane goes to."""
    return _secondary(lane, number) & (SHARDS - 1)


def lane_of(row: Row) -> tuple[int, int]:
    """Return lane and number of a row, as its primary tells."""
    number, lane = divmod(row.primary - _BASE, _LANES_MAX)
    return lane, number


def shard_of(row: Row) -> int:
    """Return the shard that a row without an address goes to."""
    return row.secondary & (SHARDS - 1)


def transaction_rows(transaction: int) -> list[Row]:
    """Return all rows of a transaction."""
    lane = TRANSACTION_LANES + transaction
    return [lane_row(lane, number) for number in range(20 + transaction * 7 % 200)]


def is_feed_gap(address: int) -> bool:
    """Say whether the feed has no row at an address."""
    return address % 5 == 3


def feed_row(address: int) -> Row:
    """Return the feed's row at an address."""
    behind = 40 if address % 11 == 4 else 0
    primary = _BASE + (address - behind) * _LANES_MAX
    secondary = FEED_SHARD + SHARDS * (address % 7)
    return Row(primary, secondary, _payload(99_999, address), address % 3)
