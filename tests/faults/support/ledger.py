"""What the store has promised, and whether what it holds keeps the promises.

A writer notes each promise in a file the moment `commit` or a transaction has returned; the
ledger reads them after the writer's end and compares them with every row of the reopened store:

* nothing promised is missing, nothing is there twice, nothing is out of order;
* what is there beyond the promises is a row that was appended, whole, in its place, with no row
  of its source missing before it; a transaction is there whole or not at all;
* `late` is what judging in address order says; addresses rise; `committed` never falls;
* what a reader in another process saw is, to the byte, what the store holds up to that address.

A broken promise raises `BrokenPromiseError`, which names the row.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import xxhash

from tests.faults.support.workload import (
    EMPTY_SHARD,
    FEED_SHARD,
    SHARDS,
    TRANSACTION_LANES,
    Row,
    Stored,
    feed_row,
    is_feed_gap,
    lane_of,
    lane_row,
    shard_of,
    shard_of_lane,
    transaction_rows,
)

_ROW_HEAD = struct.Struct("<qqiHBi")


class BrokenPromiseError(AssertionError):
    """The store does not hold what it promised."""


def stored_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Stored]:
    """Yield the rows of batches as `tail` gives them."""
    names = ["address", "primary", "secondary", "payload", "version", "late"]
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in names]
        for address, primary, secondary, payload, version, late in zip(*columns, strict=True):
            yield Stored(address, Row(primary, secondary, payload, version), late)


class Digest:
    """A checksum of the rows of a shard up to some address, however they were cut into batches."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = xxhash.xxh3_64()

    def add(self, stored: Stored) -> None:
        """Take in the next row."""
        row = stored.row
        size = -1 if row.payload is None else len(row.payload)
        self._hash.update(
            _ROW_HEAD.pack(
                stored.address, row.primary, row.secondary, row.version, stored.late, size
            )
        )
        self._hash.update(row.payload or b"")
        self.count += 1

    def hexdigest(self) -> str:
        """Return the checksum so far."""
        return self._hash.hexdigest()


@dataclass
class Ledger:
    """Promises so far. `lanes` maps a lane to how many of its rows are promised."""

    lanes: dict[int, int] = field(default_factory=dict)
    transactions: set[int] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)

    def take_notes(self, path: Path) -> list[dict[str, Any]]:
        """Take over the promises that a writer has noted; return its other notes."""
        others: list[dict[str, Any]] = []
        for note in read_notes(path):
            match note:
                case {"lane": lane, "count": rows}:
                    self.lanes[lane] = max(self.lanes.get(lane, 0), rows)
                case {"transaction": transaction}:
                    self.transactions.add(transaction)
                case {"committed": _}:
                    pass
                case _:
                    others.append(note)
            self.raise_committed(note.get("committed", {}))
        return others

    def raise_committed(self, committed: dict[Any, int]) -> None:
        """Remember the largest `committed` seen of each shard."""
        for shard, address in committed.items():
            self.committed[int(shard)] = max(self.committed.get(int(shard), 0), address)

    def check(self, shards: dict[int, list[Stored]], committed: dict[int, int]) -> None:
        """Compare the whole store with the promises."""
        for shard in range(SHARDS):
            promised, now = self.committed.get(shard, 0), committed[shard]
            _demand(now >= promised, f"shard {shard}: committed fell from {promised} to {now}")
            _check_addresses(shard, shards[shard], now)
            _check_late(shard, shards[shard])
        _demand(not shards[EMPTY_SHARD], f"shard {EMPTY_SHARD} has rows that nobody wrote")
        _check_feed(shards[FEED_SHARD], committed[FEED_SHARD])
        sources = [_by_source(shard, shards[shard]) for shard in (0, 1)]
        self._check_lanes(sources)
        self._check_transactions(sources)

    def _check_lanes(self, sources: list[dict[int, list[int]]]) -> None:
        for shard, source in enumerate(sources):
            for lane in self.lanes.keys() | source.keys():
                if lane < TRANSACTION_LANES:
                    _check_lane(shard, lane, source.get(lane, []), self.lanes.get(lane, 0))

    def _check_transactions(self, sources: list[dict[int, list[int]]]) -> None:
        seen = {lane - TRANSACTION_LANES for source in sources for lane in source}
        for transaction in self.transactions | {number for number in seen if number >= 0}:
            _check_transaction(transaction, sources)


def read_notes(path: Path) -> list[dict[str, Any]]:
    """Read a file of notes, one JSON object a line; a last line without its end is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def check_sightings(path: Path, shards: dict[int, list[Stored]]) -> int:
    """Compare what a follower noted with what the store holds; return how many notes there were."""
    sightings = [note for note in read_notes(path) if "digest" in note]
    for shard, rows in shards.items():
        remaining = iter(rows)
        digest, row = Digest(), next(remaining, None)
        mine = (note for note in sightings if note["shard"] == shard)
        for note in sorted(mine, key=lambda note: note["end"]):
            while row is not None and row.address < note["end"]:
                digest.add(row)
                row = next(remaining, None)
            seen, held = (note["count"], note["digest"]), (digest.count, digest.hexdigest())
            place = f"shard {shard}: up to address {note['end']}"
            _demand(seen == held, f"{place} a reader saw {seen}, the store holds {held}")
    return len(sightings)


def _demand(is_kept: bool, broken: str) -> None:
    if not is_kept:
        _break(broken)


def _break(broken: str) -> NoReturn:
    """Tell of a broken promise; no text is made of each row that keeps it."""
    raise BrokenPromiseError(broken)


def _check_addresses(shard: int, rows: list[Stored], committed: int) -> None:
    last = -1
    for stored in rows:
        if stored.address <= last:
            _break(f"shard {shard}: address {stored.address} after {last}")
        last = stored.address
    _demand(last < committed, f"shard {shard}: row at {last}, committed is {committed}")


def _check_late(shard: int, rows: list[Stored]) -> None:
    heads: dict[int, int] = {}
    for address, row, late in rows:
        head = heads.get(row.secondary, row.primary)
        expected = row.primary < head
        if late != expected:
            _break(f"shard {shard}: late at {address} is {late}, not {expected}")
        heads[row.secondary] = max(head, row.primary)


def _check_feed(rows: list[Stored], committed: int) -> None:
    expected = [address for address in range(committed) if not is_feed_gap(address)]
    addresses = [stored.address for stored in rows]
    missing = sorted(set(expected) - set(addresses))
    _demand(addresses == expected, f"shard {FEED_SHARD}: of [0, {committed}) missing {missing[:5]}")
    for address, row, _ in rows:
        if row != feed_row(address):
            _break(f"shard {FEED_SHARD}: altered row at {address}: {row}")


def _by_source(shard: int, rows: list[Stored]) -> dict[int, list[int]]:
    """Return the numbers of each lane in the order they stand, after a look at each row."""
    sources: dict[int, list[int]] = {}
    for address, row, _ in rows:
        lane, number = lane_of(row)
        if lane < 0 or number < 0 or lane_row(lane, number) != row:
            _break(f"shard {shard}: nobody appended the row at {address}: {row}")
        if shard_of(row) != shard:
            _break(f"shard {shard}: row at {address} is not its own: {row}")
        sources.setdefault(lane, []).append(number)
    return sources


def _numbers_after(lane: int, shard: int, last: int) -> Iterator[int]:
    return (number for number in count(last + 1) if shard_of_lane(lane, number) == shard)


def _check_lane(shard: int, lane: int, numbers: list[int], promised: int) -> None:
    place = f"shard {shard}, lane {lane}"
    for number, expected in zip(numbers, _numbers_after(lane, shard, -1), strict=False):
        if number != expected:
            _break(f"{place}: row {number} stands where {expected} belongs")
    following = next(_numbers_after(lane, shard, numbers[-1] if numbers else -1))
    _demand(following >= promised, f"{place}: row {following} is lost, {promised} were promised")


def _check_transaction(transaction: int, sources: list[dict[int, list[int]]]) -> None:
    rows = transaction_rows(transaction)
    for shard, source in enumerate(sources):
        numbers = source.get(TRANSACTION_LANES + transaction, [])
        whole = [number for number, row in enumerate(rows) if shard_of(row) == shard]
        count = f"{len(numbers)} of {len(whole)} rows"
        _demand(numbers == whole, f"shard {shard}: transaction {transaction} has {count}")
