"""The rows that `read` and `latest` return, in order, in bounded memory.

All rows are sorted in runs; those of ids and keys come from each shard by time, id by id. The log
decides which row is the newest, and the first of some ids, within `read_bytes_max`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from connectors.output_formats.order import merged, positions, ranks_of, sorted_rows
from connectors.output_formats.pieces import pieces
from storage_core import INT64_MAX, INT64_MIN, ReadRequest, StreamReader

_untyped: Any = pa  # the stubs know no function that puts batches together
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class RequestedRows:
    """Which records to read, by ids or by keys.

    Attributes:
        ids: Their ids; all if None.
        keys: Their keys; all if None.
        start: The least primary.
        end: The largest primary.
        tombstones: Whether to return a newest record that is a tombstone.
        latest_by: Return only the newest record by this.
        limit: How many rows in all; 0 for no limit.
        limit_per_id: How many rows of each id or key; 0 for no limit.
    """

    ids: list[int] | None
    keys: list[bytes | None] | None
    start: int | None
    end: int | None
    tombstones: bool
    latest_by: Literal["primary", "key"] | None = None
    limit: int = 0
    limit_per_id: int = 0

    def schema(self, reader: StreamReader, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of columns; an impossible request is refused at once."""
        self._request(columns, "primary")
        has_keys = reader.options.key_mode == "dictionary"
        # Of no id and no time, but refused for the same reasons.
        empty = replace(
            self,
            ids=self.ids if has_keys else [],
            keys=[] if has_keys else self.keys,
            start=INT64_MIN,
            end=INT64_MIN,
        )
        return empty.read(reader, columns).schema

    def read(self, reader: StreamReader, columns: Sequence[str]) -> pa.Table:
        """Return columns of them in order, in memory, whatever their limit in all is."""
        return reader.read(
            self.ids,
            self.start,
            self.end,
            self.limit_per_id,
            keys=self.keys,
            latest_by=self.latest_by,
            tombstones=self.tombstones,
            columns=columns,
        )

    def batches(
        self, reader: StreamReader, columns: Sequence[str], folder: Path | None = None
    ) -> Batches:
        """Yield columns of them in order.

        Args:
            reader: The stream's.
            columns: Their names.
            folder: Where rows may be kept while they are sorted.
        """
        every = self._every(reader, columns, folder)
        yield from first_rows(every, self.limit) if self.limit else every

    def _every(self, reader: StreamReader, columns: Sequence[str], folder: Path | None) -> Batches:
        is_of_all = self.ids is None and self.keys is None
        if self.latest_by or (self.limit_per_id and not is_of_all):
            yield from pieces(self.read(reader, columns))
            return
        # All batches end at the addresses committed at the start: one snapshot.
        ends = reader.refresh()
        if is_of_all:
            name = "key" if reader.options.key_mode == "dictionary" else "secondary"
            order = (name, "primary", "shard", "address")
            request = self._request((*columns, *order), "arrival")
            batches = sorted_rows(_each_shard(reader, request, ends), order, folder)
            if self.limit_per_id:
                batches = _first_of_each(batches, name, self.limit_per_id)
            yield from (batch.select([*columns]) for batch in batches)
        else:
            yield from self._one_by_one(reader, columns, ends)

    def newest(self, reader: StreamReader, columns: Sequence[str]) -> pa.RecordBatch:
        """Return columns of the newest record of each id or key, in their order."""
        name = "key" if reader.options.key_mode == "dictionary" else "secondary"
        order = (name, "primary", "committed_at_ms", "shard")
        request = replace(
            self._request((*columns, *order), "newest"), bytes_max=reader.options.read_bytes_max
        )
        batches = list(_each_shard(reader, request, dict.fromkeys(reader.refresh())))
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=self.schema(reader, columns))
        rows = _untyped.concat_batches(batches)
        indices = positions(rows, order)
        ids = ranks_of(rows.column(name))[indices]
        is_last = np.append(ids[1:] != ids[:-1], np.ones(min(len(ids), 1), np.bool_))
        newest: pa.RecordBatch = rows.take(_untyped.array(indices[is_last])).select([*columns])
        return newest

    def _one_by_one(
        self, reader: StreamReader, columns: Sequence[str], ends: dict[int, int]
    ) -> Batches:
        order = ("primary", "shard", "address")
        every = self._request((*columns, *order), "time")
        requests = [replace(every, ids=(one,)) for one in sorted(set(self.ids or ()))]
        keys = sorted(set(self.keys or ()), key=lambda one: (one is not None, one or b""))
        requests += [replace(every, keys=(one,)) for one in keys]
        for request in requests:
            shards = [_each_shard(reader, request, {shard: end}) for shard, end in ends.items()]
            yield from (batch.select([*columns]) for batch in merged(shards, order))

    def _request(
        self,
        columns: Sequence[str],
        order: Literal["primary", "arrival", "time", "newest"],
    ) -> ReadRequest:
        return ReadRequest(
            0,
            start=INT64_MIN if self.start is None else self.start,
            end=INT64_MAX if self.end is None else self.end,
            ids=None if self.ids is None else tuple(self.ids),
            keys=None if self.keys is None else tuple(self.keys),
            columns=tuple(dict.fromkeys(columns)),
            order=order,
            limit=self.limit_per_id if order == "primary" else 0,
        )


def first_rows(batches: Batches, limit: int) -> Batches:
    """Yield the first rows of batches, and fetch no more."""
    left = limit
    for batch in batches:
        some = batch.slice(0, left)
        left -= some.num_rows
        yield some
        if left <= 0:
            return


def _first_of_each(batches: Batches, name: str, limit: int) -> Batches:
    """Yield at most `limit` rows of each id or key; the batches are sorted by it."""
    before: object = None
    seen = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        ids = ranks_of(batch.column(name))
        begins = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        sizes = np.diff(np.append(begins, len(ids)))
        ranks = np.arange(len(ids)) - np.repeat(begins, sizes)
        if seen and batch.column(name)[0].as_py() == before:
            ranks[: sizes[0]] += seen
        before, seen = batch.column(name)[-1].as_py(), int(ranks[-1]) + 1
        yield batch.filter(_untyped.array(ranks < limit))


def _each_shard(
    reader: StreamReader, request: ReadRequest, ends: Mapping[int, int | None]
) -> Batches:
    for shard, end in ends.items():
        of_shard = replace(request, shard=shard, end_address=end)
        yield from reader.shard(shard).scan(of_shard)
