"""A stream whose rows are read by ranges of addresses, as whoever follows it does.

Rows come as snapshots that DuckDB reads like any other; whether they lie in parts is not asked.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from storage_core.parts.part_rows import stored_columns
from storage_core.sql.engine import EngineOptions
from storage_core.sql.pool.engine import PooledEngine
from storage_core.sql.pool.hot_tables import united
from storage_core.sql.pool.pooled_stream import PooledSnapshot, PooledStream

_MEMORY_BYTES_MAX: Final = 2**28


class StreamRanges(PooledStream):
    """A stream that stays open. Any thread."""

    def __init__(self, root: Path, name: str) -> None:
        """Open it.

        Raises:
            InvalidRequestError: There is no such stream.
        """
        super().__init__(root, name)
        self.name = name

    def ends(self) -> dict[int, int]:
        """Return where each shard ends, shards that were added included."""
        return self._reader.refresh()

    def start(self, shard: int) -> int:
        """Return the first address that a shard still has or will have."""
        return self._reader.start(shard)

    def wait(self, shard: int, address: int, timeout_s: float) -> bool:
        """Wait until a shard ends behind an address; tell whether it does."""
        return self._reader.wait(shard, address, timeout_s)

    def between(
        self, shard: int, start: int, end: int, bytes_max: int
    ) -> tuple[PooledSnapshot, int]:
        """Return the rows from one address to before another, and the address that was reached.

        Args:
            shard: The shard's number.
            start: The first address.
            end: Its exclusive end.
            bytes_max: After so many bytes of rows it is enough.

        Raises:
            LostRangeError: Addresses below the log's start, or lost.
        """
        stored: list[pa.RecordBatch] = []
        size, reached = 0, end
        columns = stored_columns(has_keys=self.has_keys)
        for batch in self._reader.tail(shard, start, end, columns=columns) if start < end else ():
            if not batch.num_rows:
                continue
            stored.append(batch)
            size += batch.nbytes
            last: Any = batch.column("address")[batch.num_rows - 1]
            if size >= bytes_max:
                reached = last.as_py() + 1
                break
        with self._lock:
            hot = united(self._typed(stored))
            # IMPORTANT: after the rows are read, so that the schema of each is among them.
            schemas = self._current_schemas()
            snapshot = self._with_columns(schemas, {}, [], hot)
            rows = sum(table.num_rows for table in hot)
            return PooledSnapshot(
                self.name, self.has_keys, snapshot, schemas.fields, [], rows
            ), reached


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
