"""Rows of a stream whose older ones are in parts, held against plain lists of what was appended.

    rows = ColdStream(root, chance)
    rows.append(80)              appended and committed: it is promised from then on
    rows.expect()                opened, and asked in every way there is

The lists know what was appended and in which order; a shard is the low bit of the id. What may be
there beside what was promised is a beginning of what was appended and never told to be durable.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from storage_core import Environment, ShardlogError, Stream, StreamReader
from storage_core.cold.sql import batches_of
from tests.log.cold.cold_lab import ENTRIES, NAME, ColdLab

SHARDS: Final = 2
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
        self._lab = ColdLab(root, environment, block_records=16, **options)
        self._lab.stream.close()
        self.promised: list[list[Row]] = [[] for _ in range(SHARDS)]
        self._hoped: list[list[Row]] = [[] for _ in range(SHARDS)]

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

    def append(self, count: int) -> None:
        """Append and commit rows of every kind; once it returns they are promised."""
        batch = self._lab.made(self._rng, count)
        added = batch.select([name for name in COLUMNS if name in batch.schema.names]).to_pylist()
        numbers = batch.column("schema").to_pylist()
        ids = [None if one is None else ENTRIES[one].registry_id for one in numbers]
        for row, schema_id in zip(added, ids, strict=True):
            shard = row["secondary"] % SHARDS
            at = len(self.promised[shard]) + len(self._hoped[shard])
            named = {**row, "shard": shard, "address": at, "schema_id": schema_id}
            self._hoped[shard].append(tuple(named[name] for name in COLUMNS))
        self.stream.append_batch(batch, schemas=ENTRIES)
        self.stream.commit()
        self._keep([len(rows) for rows in self._hoped])

    def expect(self, *, is_sound: bool = True) -> None:
        """Open it and find all that was promised, in every way it is asked.

        Where it is sound nothing else is wrong, and each part of the catalogue is whole.
        """
        with self.opened() as stream:
            ends = stream.commit()
            self._keep([ends[shard] - len(rows) for shard, rows in enumerate(self.promised)])
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
        everything = [row for rows in self.promised for row in rows]
        for shard, rows in enumerate(self.promised):
            assert _tuples(reads.tail(shard, columns=columns)) == rows
        order = sorted(everything, key=lambda row: (row[2], row[3], row[0], row[1]))
        assert _tuples(reads.read(columns=columns).to_batches()) == order
        assert sorted(_tuples(reads.scan(columns=columns)), key=_place) == everything
        newest = {row[2]: (row[3], row[1]) for row in order}
        assert {
            one.secondary: (one.primary, one.address) for one in reads.latest().values()
        } == newest

    def _expect_of_parts(self) -> None:
        """Find each sealed row in one part as it came, and all of them by SQL with those behind."""
        in_parts = [tuple(row[name] for name in ("shard", "address")) for row in self._parts()]
        sealed = dict.fromkeys(range(SHARDS), 0)
        for shard, address in in_parts:
            assert address == sealed[shard]
            sealed[shard] += 1
        _, batches = batches_of(self.root, f'SELECT shard, address, "primary" FROM {NAME}')
        found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        assert sorted(found) == [(row[0], row[1], row[3]) for rows in self.promised for row in rows]

    def _parts(self) -> list[dict[str, Any]]:
        """Return the rows of parts, each as it was appended."""
        rows = self._lab.rows_of_parts()
        for row in rows:
            told = self.promised[row["shard"]][row["address"]]
            mine = {name: row[name] for name in COLUMNS if name in row}
            assert mine == {name: told[COLUMNS.index(name)] for name in mine}
        return rows

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
