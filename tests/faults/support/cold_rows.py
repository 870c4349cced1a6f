"""Rows of a stream whose older ones are in parts, held against plain lists of what was appended.

    rows = ColdStream(root, chance)
    rows.append(80)              appended and committed: it is promised from then on
    rows.expect()                opened, and asked in every way there is
    rows.outlive()               what was promised so far may expire from then on
    rows.expire()                once it returns all of that is gone for good

The lists know what was appended and in which order; a shard is the low bit of the id. What may be
there beside what was promised is a beginning of what was appended and never told to be durable. Of
what may expire each shard has all or nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from storage_core import Environment, ShardlogError, Stream, StreamReader
from storage_core.sql import query_batches
from tests.log.parts.parts_lab import ENTRIES, FIRST_MS, NAME, PartsLab

SHARDS: Final = 2
BLOCK_ROWS: Final = 16
# So many seconds, and windows of a stream that is short-lived, lie between what may expire and what
# comes later.
LATER: Final = 3600
SHORT_LIVED: Final = timedelta(minutes=10)
Row = tuple[Any, ...]
COLUMNS: Final = ("shard", "address", "secondary", "primary", "payload", "timestamp", "schema_id")


class ColdStream:
    """A stream, and its rows in plain lists."""

    def __init__(
        self, root: Path, seed: int, environment: Environment | None = None, **options: Any
    ) -> None:
        """Create it."""
        self.root = root
        self._environment = environment
        self._rng = np.random.default_rng(seed)
        self._lab = PartsLab(root, environment, block_records=BLOCK_ROWS, **options)
        self._lab.stream.close()
        self.promised: list[list[Row]] = [[] for _ in range(SHARDS)]
        self._hoped: list[list[Row]] = [[] for _ in range(SHARDS)]
        # How many rows of each shard have expired, and how many may have.
        self._gone, self._going = [0] * SHARDS, [0] * SHARDS

    @property
    def stream(self) -> Stream:
        """The writer, while it is open."""
        return self._lab.stream

    @contextmanager
    def opened(self) -> Iterator[Stream]:
        """Open the writer, and let it go however its disk may be."""
        self._lab.stream = Stream.open(self.root, NAME, environment=self._environment)
        try:
            yield self._lab.stream
        finally:
            with suppress(ShardlogError, OSError):
                self._lab.stream.close()

    def reopen(self) -> None:
        """Open the writer anew where a durable write failed, and take over what it finds."""
        with suppress(ShardlogError, OSError):
            self._lab.stream.close()
        self._lab.stream = Stream.open(self.root, NAME, environment=self._environment)
        self._adopt()

    def append(self, count: int) -> None:
        """Append and commit rows of every kind; once it returns they are promised."""
        batch = self._lab.made(self._rng, count)
        added = batch.select([name for name in COLUMNS if name in batch.schema.names]).to_pylist()
        numbers = batch.column("schema").to_pylist()
        ids = [None if one is None else ENTRIES[one].registry_id for one in numbers]
        for row, schema_id in zip(added, ids, strict=True):
            shard = row["secondary"] % SHARDS
            address = len(self.promised[shard]) + len(self._hoped[shard])
            named = {**row, "shard": shard, "address": address, "schema_id": schema_id}
            self._hoped[shard].append(tuple(named[name] for name in COLUMNS))
        self.stream.append_batch(batch, schemas=ENTRIES)
        self.stream.commit()
        self._keep([len(rows) for rows in self._hoped])

    def outlive(self) -> None:
        """Let all that was promised so far be too old for a stream that is short-lived."""
        self._going = [len(rows) for rows in self.promised]
        self._lab._count += LATER

    def expire(self) -> None:
        """Let it expire."""
        now_s = self._lab._count - LATER // 2 + SHORT_LIVED.total_seconds()
        self.stream.expire(FIRST_MS + 1000 * int(now_s))
        self._gone = self._going
        # Parts that have some of it go with it.
        assert all(one.entry.first >= self._gone[one.shard] for one in self.stream.parts())

    def expect(self, *, is_sound: bool = True) -> None:
        """Open it and find all that was promised, in every way it is asked.

        Where it is sound nothing else is wrong, and each part of the catalogue is whole.
        """
        with self.opened() as stream:
            self._adopt()
            self.expect_of(stream)
            # A reader beside it, with views and heads of its own.
            with StreamReader.open(self.root, NAME) as reader:
                self.expect_of(reader)
            if is_sound:
                report = stream.verify()
                assert report.is_clean, report.problems
                self._expect_of_parts()

    def expect_of(self, reads: Any) -> None:
        """Find the promised rows by `tail`, `read`, `scan` and `latest` of a writer or reader."""
        columns = list(COLUMNS)
        for shard, rows in enumerate(self.promised):
            replayed = _tuples(reads.tail(shard, columns=columns))
            assert replayed in (rows[self._gone[shard] :], rows[self._going[shard] :])
        read_rows = _tuples(reads.read(columns=columns).to_batches())
        everything = self._shown_with(sorted((row[0], row[1]) for row in read_rows))
        order = sorted(everything, key=lambda row: (row[2], row[3], row[0], row[1]))
        assert read_rows == order
        assert sorted(_tuples(reads.scan(columns=columns)), key=_place) == everything
        newest = {row[2]: (row[3], row[1]) for row in order}
        assert {
            record.secondary: (record.primary, record.address) for record in reads.latest().values()
        } == newest

    def _expect_of_parts(self) -> None:
        """Find each sealed row in one part as it came, and all of them by SQL with those behind."""
        in_parts = [(int(row["shard"]), int(row["address"])) for row in self._parts()]
        for shard in range(SHARDS):
            addresses = [address for number, address in in_parts if number == shard]
            if addresses:
                assert addresses[0] in (self._gone[shard], self._going[shard])
                assert addresses == list(range(addresses[0], addresses[0] + len(addresses)))
        _, batches = query_batches(self.root, f'SELECT shard, address, "primary" FROM {NAME}')
        rows = sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())
        everything = self._shown_with([(one[0], one[1]) for one in rows])
        assert rows == [(row[0], row[1], row[3]) for row in everything]

    def _shown_with(self, places: list[tuple[int, int]]) -> list[Row]:
        """Return the rows that are shown where those of some places are."""
        begins = list(self._going)
        for shard, address in places:
            if address < begins[shard]:
                begins[shard] = self._gone[shard]
        return [row for n, rows in enumerate(self.promised) for row in rows[begins[n] :]]

    def _parts(self) -> list[dict[str, Any]]:
        """Return the rows of parts, each as it was appended."""
        rows = self._lab.rows_of_parts()
        for row in rows:
            promised = self.promised[row["shard"]][row["address"]]
            mine = {name: row[name] for name in COLUMNS if name in row}
            assert mine == {name: promised[COLUMNS.index(name)] for name in mine}
        return rows

    def _adopt(self) -> None:
        """Promise what is there of what was appended, which is a beginning of it."""
        ends = self.stream.commit()
        self._keep([ends[shard] - len(rows) for shard, rows in enumerate(self.promised)])

    def _keep(self, counts: list[int]) -> None:
        """Hold the stream to so many of the rows that were appended; forget the others."""
        for shard, count in enumerate(counts):
            assert 0 <= count <= len(self._hoped[shard])
            self.promised[shard] += self._hoped[shard][:count]
            self._hoped[shard] = []


def _tuples(batches: Any) -> list[Row]:
    return [
        row
        for batch in batches
        for row in zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)
    ]


def _place(row: Row) -> tuple[int, int]:
    return row[0], row[1]
