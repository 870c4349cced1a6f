"""A stream that stays open between queries: its reader, its schemas and its typed hot rows.

A snapshot of it is one of stream_snapshot.py. Its parts are listed anew for each; of hot rows only
those are decoded that no snapshot had before. Of a few keys or ids, where much would have to be
decoded, only their rows are read, until that has cost more than decoding all of them once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.catalog.position import ShardPosition
from storage_core.errors import LostRangeError
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.window import Unit
from storage_core.parts.part_rows import numbered, numbers_of, part_rows, stored_columns
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.parts.typed_columns import Writer
from storage_core.reader import StreamReader
from storage_core.sql.field_columns import FieldColumns, field_columns
from storage_core.sql.part_groups import PART_GONE, PartGoneError, PartGroup, part_groups
from storage_core.sql.pool.few_rows import ROWS_MAX, FewRows
from storage_core.sql.pool.hot_tables import HotTables, rows_of, united
from storage_core.sql.pool.row_digests import identity_columns, row_digests
from storage_core.sql.stream_columns import StreamColumns, row_columns
from storage_core.sql.stream_snapshot import StreamSnapshot, bounded_now
from storage_core.sql.whole_transactions import (
    RowsEpoch,
    SnapshotShard,
    instance_of,
    snapshot_of_shards,
)

# Of a few keys, so many rows are rather decoded for good than searched for each time.
_DECODED_FOR_KEYS_MAX: Final = 16_384
# More are, too, once that many times as many were searched; never more than these at once.
_SEARCHES: Final = 4
_DECODED_AT_ONCE_MAX: Final = 2**18
Owners = tuple[bytes, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PooledSnapshot:
    """A snapshot of a pooled stream, or of a range of its rows, which has not the last three.

    Attributes:
        stream: Its name.
        has_keys: Whether rows belong to keys.
        rows: The snapshot of rows.
        fields: The columns of fields.
        parts: Its parts.
        hot_rows: How many hot rows it has, or how many of the keys or ids.
        incarnation: The random id made with the stream.
        settled: Where each shard ends, by its lineage: below it no snapshot taken later shows a row
            that this one does not.
        epochs: Whether rows of each shard that were read for another snapshot are still its rows.
    """

    stream: str
    has_keys: bool
    rows: StreamSnapshot
    fields: FieldColumns
    parts: Sequence[Part]
    hot_rows: int
    incarnation: str = ""
    settled: Mapping[int, ShardPosition] = field(default_factory=dict)
    epochs: Mapping[int, RowsEpoch] = field(default_factory=dict)

    @property
    def unit(self) -> Unit:
        """What its primaries count."""
        return self.rows.unit


@dataclass(frozen=True, slots=True)
class PooledColumns:
    """What a query of a pooled stream may name, as a snapshot of it has them."""

    has_keys: bool
    unit: Unit
    fields: FieldColumns


@dataclass(frozen=True, slots=True)
class _Schemas:
    """The schemas of a stream at one moment."""

    entries: tuple[SchemaEntry, ...]
    writers: tuple[Writer, ...]
    fields: FieldColumns
    few: FewRows


class PooledStream:
    """A stream that stays open. Any thread; one at a time takes a snapshot."""

    def __init__(self, root: Path, name: str) -> None:
        """Open it.

        Raises:
            InvalidRequestError: There is no such stream.
        """
        self._reader = StreamReader.open(root, name)
        self._name = name
        self.has_keys = self._reader.options.key_mode == "dictionary"
        self._lock = Lock()
        self._hot: dict[int, HotTables] = {}
        self._epochs: dict[int, RowsEpoch] = {}
        self._schemas = _Schemas((), (), field_columns(()), FewRows((), {}))

    def close(self) -> None:
        """Close its reader."""
        with self._lock:
            self._reader.close()

    @property
    def cache_bytes(self) -> int:
        """About how many bytes its hot rows take."""
        return sum(tables.cache_bytes for tables in [*self._hot.values()])

    def forget_rows(self) -> None:
        """Drop the hot rows."""
        with self._lock:
            self._hot.clear()

    def snapshot(self, owners: Owners | None = None) -> PooledSnapshot:
        """Return a snapshot.

        Args:
            owners: Only the hot rows of these keys or ids; parts may still have others.

        Raises:
            PartGoneError: A part was deleted meanwhile.
            CorruptionError: A part cannot be read.
        """
        with self._lock:
            self._reader.refresh()
            return self._snapshot(owners)

    def columns(self) -> PooledColumns:
        """Return its columns as they are now; no row is read."""
        with self._lock:
            self._reader.refresh()
            unit = self._reader.options.unit
            return PooledColumns(self.has_keys, unit, self._current_schemas().fields)

    def row_digests(
        self, snapshot: PooledSnapshot, addresses: Mapping[int, int]
    ) -> dict[int, str | None]:
        """Return the digest of a row of each shard; None where there is none any more.

        Where an older copy of the stream was put in its place, and others wrote on, another row is
        at the address. Shards whose store was left for a newer one since the snapshot are left out.
        """
        digests = {n: self.row_digest(n, address) for n, address in addresses.items()}
        return {
            n: digest
            for n, digest in digests.items()
            if instance_of(self._reader, n) == snapshot.epochs[n].instance
        }

    def first_behind(self, snapshot: PooledSnapshot) -> int | None:
        """Return the least primary of the first rows behind a snapshot; None if none came since.

        Raises:
            PartGoneError: They are gone again, or the stream is another one by now.
        """
        primaries: list[Any] = []
        for n, end in self._reader.committed().items():
            place = snapshot.settled.get(n)
            if place is not None and self._reader.lineage(n) != place.lineage:
                raise PartGoneError(PART_GONE)
            start = 0 if place is None else place.address
            if end <= start:
                continue
            try:
                batches = self._reader.tail(n, start, end, columns=["primary"])
                first = next((batch for batch in batches if batch.num_rows), None)
            except LostRangeError as error:
                raise PartGoneError(PART_GONE) from error
            if first is not None:
                primaries += first.column("primary").slice(0, 1).to_pylist()
        return min(primaries, default=None)

    def row_digest(self, shard: int, address: int) -> str | None:
        """Return the digest of a row; None where there is none, or none any more."""
        if address < 0:
            return None
        columns = identity_columns(has_keys=self.has_keys)
        try:
            batches = [*self._reader.tail(shard, address, address + 1, columns=columns)]
        except LostRangeError:
            return None
        return next((digest for rows in batches for digest in row_digests(rows)), None)

    def _snapshot(self, owners: Owners | None) -> PooledSnapshot:
        files = self._reader.rows.shards.files
        shards = snapshot_of_shards(self._reader, files)
        self._forget_rows_of_before({n: shard.epoch for n, shard in shards.items()})
        hot = united(
            table for n, shard in shards.items() for table in self._hot_of(n, shard, owners)
        )
        # IMPORTANT: after the rows are read (stream_snapshot.py).
        bounded = {n: bounded_now(s.parts, s.end, self._reader.shard(n)) for n, s in shards.items()}
        try:
            groups = part_groups((n, files.shard_directory(n), bounded[n]) for n in shards)
        except FileNotFoundError as error:
            raise PartGoneError(PART_GONE) from error
        parts = [
            part
            for n, shard in shards.items()
            for part in listed_parts(n, files.shard_directory(n), shard.parts.entries)
        ]
        # IMPORTANT: after the rows are read, so that the schema of each is among them.
        schemas = self._current_schemas()
        return PooledSnapshot(
            self._name,
            self.has_keys,
            self._with_columns(schemas, bounded, groups, hot),
            schemas.fields,
            parts,
            sum(table.num_rows for table in hot),
            self._reader.position().incarnation,
            {n: ShardPosition(self._reader.lineage(n), s.settled) for n, s in shards.items()},
            {n: shard.epoch for n, shard in shards.items()},
        )

    def _forget_rows_of_before(self, epochs: dict[int, RowsEpoch]) -> None:
        """Drop the hot rows of shards whose rows may be others than they were."""
        for n, epoch in epochs.items():
            if epoch != self._epochs.get(n, epoch):
                self._hot.pop(n, None)
        self._epochs = epochs

    def _with_columns(
        self,
        schemas: _Schemas,
        shards: Mapping[int, ShardParts],
        groups: list[PartGroup],
        hot: list[pa.Table],
    ) -> StreamSnapshot:
        unit = self._reader.options.unit
        own = row_columns(has_keys=self.has_keys)
        columns = StreamColumns(own, schemas.fields, unit)
        if not groups and not hot:
            hot = [own.empty_table()]
        return StreamSnapshot(
            [(columns.in_table(group.schema), group) for group in groups],
            [(columns.in_table(table.schema), table) for table in hot],
            shards,
            unit,
        )

    def _hot_of(self, n: int, shard: SnapshotShard, owners: Owners | None) -> list[pa.Table]:
        """Return the hot rows of a shard."""
        outliving = self._without_blocks(n, shard, owners)
        return [*outliving, *self._with_blocks(n, shard, owners)]

    def _without_blocks(
        self, n: int, shard: SnapshotShard, owners: Owners | None
    ) -> list[pa.Table]:
        """Return rows ahead of the clock that no part has, and whose blocks have expired."""
        begin, end = shard.parts.sealed, shard.hot_start
        if begin >= end:
            return []
        return self._typed(self._read(n, begin, end, owners))

    def _with_blocks(self, n: int, shard: SnapshotShard, owners: Owners | None) -> list[pa.Table]:
        start = shard.hot_start
        tables = self._hot.setdefault(n, HotTables(self._typed))
        read = partial(self._read, n)
        if owners is None:
            return tables.of(start, shard.end, read)
        missing = tables.missing(start, shard.end)
        is_searched = tables.searched < _SEARCHES * missing or missing > _DECODED_AT_ONCE_MAX
        if missing > _DECODED_FOR_KEYS_MAX and is_searched:
            tables.searched += missing
            return self._typed(self._read(n, start, shard.end, owners))
        column = "key" if self.has_keys else "secondary"
        return [
            rows
            for table in tables.of(start, shard.end, read)
            for rows in rows_of(table, column, owners)
        ]

    def _read(
        self, n: int, start: int, end: int, owners: Owners | None = None
    ) -> list[pa.RecordBatch]:
        """Return the rows that a shard has of some addresses: all, or those of keys or ids."""
        columns, wanted = stored_columns(has_keys=self.has_keys), dict[str, Any]()
        if owners is not None:
            wanted = {"keys" if self.has_keys else "ids": list(owners)}
        batches = self._reader.rows.stored(n, start, end, columns=columns, **wanted)
        return [batch for batch in batches if batch.num_rows]

    def _typed(self, stored: list[pa.RecordBatch]) -> list[pa.Table]:
        """Return stored rows as typed tables."""
        return self._typed_by(self._current_schemas(), stored) if stored else []

    def _typed_by(self, schemas: _Schemas, stored: list[pa.RecordBatch]) -> list[pa.Table]:
        """Return stored rows as typed tables, by schemas that theirs are among."""
        if not stored:
            return []
        numbers = numbers_of(schemas.entries)
        batches = [numbered(batch, numbers) for batch in stored]
        return [
            group.rows
            for group in part_rows(batches, has_keys=self.has_keys, writers=schemas.writers)
        ]

    def _schemas_of(self, stored: list[pa.RecordBatch]) -> _Schemas:
        """Return schemas that those of some rows are among; without rows those that are there now.

        They are read again where a row has another one than were there before, or rows are many.
        """
        is_few = 0 < sum(batch.num_rows for batch in stored) <= ROWS_MAX
        return (
            self._schemas
            if is_few and self._schemas.few.has_all(stored)
            else self._current_schemas()
        )

    def _current_schemas(self) -> _Schemas:
        entries = tuple(self._reader.schemas())
        if entries != self._schemas.entries:
            parsed = tuple(
                Writer(AvroSchema.stored(entry.text), entry.registry_id) for entry in entries
            )
            columns, few = (
                field_columns(w.schema for w in parsed),
                FewRows(parsed, numbers_of(entries)),
            )
            self._schemas = _Schemas(entries, parsed, columns, few)
        return self._schemas
