"""A stream whose rows are read by ranges of addresses, as whoever follows it does.

Rows come as snapshots that DuckDB reads like any other; whether they lie in parts is not asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import UnavailableError
from storage_core.parts.part_rows import stored_columns
from storage_core.sql.engine import EngineOptions
from storage_core.sql.pool.engine import PooledEngine
from storage_core.sql.pool.hot_tables import united
from storage_core.sql.pool.pooled_stream import PooledSnapshot, PooledStream
from storage_core.sql.pool.row_digests import identity_columns
from storage_core.sql.whole_transactions import instance_of

_MEMORY_BYTES_MAX: Final = 2**28
_TRIES_MAX: Final = 16
_numbers = count()
# Of a stream that stays open, and how often a shard's store was left for a newer one.
Instance = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows of a range of addresses.

    Attributes:
        snapshot: The rows.
        reached: Up to which address they are.
        identities: What tells each of them from others (row_digests.py).
        instance: Of which instance of the shard they are.
    """

    snapshot: PooledSnapshot
    reached: int
    identities: Sequence[pa.RecordBatch]
    instance: Instance


class StreamRanges(PooledStream):
    """A stream that stays open. Any thread."""

    def __init__(self, root: Path, name: str) -> None:
        """Open it.

        Raises:
            InvalidRequestError: There is no such stream.
        """
        super().__init__(root, name)
        self.name = name
        self._number = next(_numbers)

    def ends(self) -> dict[int, int]:
        """Return where each shard ends, shards that were added included."""
        return self._reader.refresh()

    def committed(self) -> dict[int, int]:
        """Return where each shard ends that was there when `ends` was asked last."""
        return self._reader.committed()

    def start(self, shard: int) -> int:
        """Return the first address that a shard still has or will have."""
        return self._reader.start(shard)

    def wait(self, shard: int, address: int, timeout_s: float) -> bool:
        """Wait until a shard ends behind an address; tell whether it does."""
        return self._reader.wait(shard, address, timeout_s)

    def horizon(self, shard: int) -> tuple[int, int]:
        """Return where a shard starts, and its generation by then: what has expired is before."""
        return self._reader.horizon(shard)

    def expired(self, shard: int, start: int, end: int, until: int) -> tuple[int, int] | None:
        """Return the first addresses of a range that have expired, if some have.

        Args:
            shard: The shard's number.
            start: The first address.
            end: Its exclusive end.
            until: A generation; what had expired behind a row by then is left out.
        """
        begin = self._reader.start(shard)
        if start < begin:
            return start, begin
        gone = self._reader.shard(shard).expired(start, end, until)
        return (max(start, gone[0][0]), gone[0][1]) if gone else None

    def is_gone(self, shard: int, address: int) -> bool:
        """Tell whether a row was there, and has expired or is lost."""
        return bool(self._reader.missing(shard, address, address + 1))

    @cached_property
    def incarnation(self) -> str:
        """The random id made with the stream, in hex."""
        return self._reader.position().incarnation

    def instance(self, shard: int) -> Instance:
        """Return what is another one once rows may be others than they were."""
        return self._number, instance_of(self._reader, shard)

    def between(
        self, shard: int, start: int, end: int, bytes_max: int, expired_until: int = 0
    ) -> RowRange:
        """Return the rows from one address to before another, or the first of them.

        Args:
            shard: The shard's number.
            start: The first address.
            end: Its exclusive end.
            bytes_max: After so many bytes of rows it is enough.
            expired_until: A generation; what had expired behind a row by then is left out.

        Raises:
            LostRangeError: Addresses below the log's start, lost, or expired since.
            UnavailableError: The files were replaced again and again.
        """
        for _ in range(_TRIES_MAX):
            instance = self.instance(shard)
            stored, reached = self._stored(shard, (start, end), bytes_max, expired_until)
            if self.instance(shard) == instance:
                break
        else:
            message = "the shard is replaced faster than it can be read; try again"
            raise UnavailableError(message, stream=self.name, shard=shard)
        with self._lock:
            # IMPORTANT: after the rows are read, so that the schema of each is among them.
            schemas = self._schemas_of(stored)
            few = schemas.few.typed(stored)
            hot = united(self._typed_by(schemas, stored)) if few is None else [few]
            snapshot = self._with_columns(schemas, {}, [], hot)
            rows = sum(table.num_rows for table in hot)
            pooled = PooledSnapshot(self.name, self.has_keys, snapshot, schemas.fields, [], rows)
        identity = identity_columns(has_keys=self.has_keys)
        identities = tuple(batch.select(identity) for batch in stored)
        return RowRange(pooled, reached, identities, instance)

    def _stored(
        self, shard: int, places: tuple[int, int], bytes_max: int, expired_until: int
    ) -> tuple[list[pa.RecordBatch], int]:
        """Return rows as they are stored, and the address that was reached."""
        stored: list[pa.RecordBatch] = []
        (start, end), size = places, 0
        if start >= end:
            return stored, end
        columns = stored_columns(has_keys=self.has_keys)
        rows = self._reader.rows
        for batch in rows.unexpired(
            shard, start, end, columns=columns, expired_until=expired_until
        ):
            if not batch.num_rows:
                continue
            stored.append(batch)
            size += batch.nbytes
            last: Any = batch.column("address")[batch.num_rows - 1]
            if size >= bytes_max:
                return stored, last.as_py() + 1
        return stored, end


class RangeQueries:
    """A DuckDB that evaluates queries over ranges, one after the other. Any thread."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._lock = Lock()
        self._engine: PooledEngine | None = None

    def open(self) -> None:
        """Open it by now, so that the first query does not wait for that."""
        with self._lock:
            self._opened()

    def rows(
        self, snapshot: PooledSnapshot, build: Callable[[PooledSnapshot, str], str]
    ) -> list[pa.RecordBatch]:
        """Return all rows of a query.

        Args:
            snapshot: The rows it is of.
            build: Makes the query of them, and of their SELECT.

        Raises:
            InvalidRequestError: DuckDB refuses the query.
        """
        with self._lock:
            engine = self._opened()
            try:
                _, batches = engine.query(
                    {snapshot.stream: snapshot},
                    lambda _, texts: build(snapshot, texts[snapshot.stream]),
                )
                return list(batches)
            finally:
                engine.release()

    def close(self) -> None:
        """Close it, behind the query that runs."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _opened(self) -> PooledEngine:
        if self._engine is None:
            self._engine = PooledEngine(EngineOptions(_MEMORY_BYTES_MAX))
        return self._engine
