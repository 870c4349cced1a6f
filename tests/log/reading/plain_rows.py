"""Rows as a plain list: what every read of a stream must agree with.

`PlainRows` judges row by row, as the table in states.py says, and answers each read by filtering
and sorting the whole list. It is slow and short; nothing of the log is used.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class PlainRow(NamedTuple):
    """A row with its place and state."""

    shard: int
    address: int
    primary: int
    secondary: int
    payload: bytes | None
    version: int
    state: int


@dataclass
class PlainRows:
    """All rows of a stream, in order of arrival in each shard."""

    shards: int
    jitter: int
    ahead_limit: int
    rows: list[PlainRow] = field(default_factory=list)
    _largest: dict[tuple[int, int], int] = field(default_factory=dict)

    def append(self, primary: int, secondary: int, payload: bytes | None, version: int) -> None:
        """Take a row as `Stream.append` does."""
        shard = secondary & (self.shards - 1)
        address = sum(row.shard == shard for row in self.rows)
        state = self._route(shard, secondary, primary)
        self.rows.append(PlainRow(shard, address, primary, secondary, payload, version, state))

    def _route(self, shard: int, secondary: int, primary: int) -> int:
        largest = self._largest.get((shard, secondary))
        if primary > self.ahead_limit:
            return 2
        if largest is None or primary >= largest:
            self._largest[shard, secondary] = primary
            return 0
        return 0 if primary >= largest - self.jitter else 1

    def chosen(
        self,
        ids: Iterable[int] | None,
        start: int,
        end: int,
        versions: Iterable[int] | None = None,
    ) -> list[PlainRow]:
        """Return matching rows shard by shard, in order of arrival."""
        wanted = None if ids is None else set(ids)
        found = [
            row
            for row in self.rows
            if start <= row.primary <= end
            and (wanted is None or row.secondary in wanted)
            and (versions is None or row.version in versions)
        ]
        return sorted(found, key=lambda row: (row.shard, row.address))

    def read(self, *question: Any, limit: int = 0) -> list[PlainRow]:
        """Return matching rows in the order of `read`, at most `limit` an id."""
        ordered = sorted(
            self.chosen(*question),
            key=lambda row: (row.secondary, row.primary, row.shard, row.address),
        )
        counts: dict[int, int] = {}
        kept = []
        for row in ordered:
            counts[row.secondary] = counts.get(row.secondary, 0) + 1
            if limit == 0 or counts[row.secondary] <= limit:
                kept.append(row)
        return kept

    def latest(self, ids: Iterable[int] | None) -> dict[int, PlainRow]:
        """Return each id's row with the largest primary, of equals the last stored."""
        ordered = sorted(
            self.chosen(ids, -(2**63), 2**63 - 1), key=lambda row: (row.primary, row.address)
        )
        return {row.secondary: row for row in ordered}

    def earliest(self, ids: Iterable[int] | None, from_: int) -> int | None:
        """Return the least primary that is not below `from_`."""
        return min((row.primary for row in self.chosen(ids, from_, 2**63 - 1)), default=None)


def scattered_rows(chance: random.Random, count: int, now: int) -> list[tuple]:
    """Return records of a dozen ids around `now`: runs, late ones, some far ahead or behind."""
    ids = [-(2**31), -5, -1, 0, 1, 2, 3, 8, 9, 1000, 1001, 2**31 - 1]
    rows, primary = [], now - count
    for _ in range(count):
        primary += chance.choice([0, 0, 1, 1, 5, -7])
        value = chance.choice(
            [primary] * 12 + [primary - 40, now + 10**6, now + 10**9, now - 10**7]
        )
        payload = chance.choice([None, b"", b"x" * chance.randrange(9)])
        rows.append((value, chance.choice(ids), payload, chance.choice([0, 0, 0, 1, 7])))
    return rows
