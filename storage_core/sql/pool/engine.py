"""A DuckDB that asks snapshots of pooled streams. One query at a time, by any thread."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from storage_core.errors import ShardlogError
from storage_core.parts.part_home import opener_of
from storage_core.sql.answer import next_batch
from storage_core.sql.engine import EngineOptions, open_engine
from storage_core.sql.interruptible import Interruptible
from storage_core.sql.part_files import ListedPart, PartFiles
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from storage_core.sql.query_errors import as_shardlog_error, translated
from storage_core.sql.stream_view import quoted, select_of

_BATCH_ROWS: Final = 16_384
Snapshots = Mapping[str, PooledSnapshot]
# Makes a query of the snapshots, and of the SELECT of each, by stream.
Build = Callable[[Snapshots, Mapping[str, str]], str]


class PooledEngine:
    """A DuckDB over snapshots."""

    def __init__(self, options: EngineOptions) -> None:
        """Open it."""
        self._files = PartFiles(verify_checksums=options.verify_checksums)
        self._connection = open_engine(options, self._files)
        self._calls = Interruptible(self._connection.interrupt)
        self._reader: pa.RecordBatchReader | None = None
        self._hot: list[str] = []
        self._streams: set[str] = set()

    def close(self) -> None:
        """Close it."""
        self._calls.close()
        self._connection.close()

    def query(
        self, snapshots: Snapshots, build: Build, poll: Callable[[], None] | None = None
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the answer to a query; `release` ends it.

        Ctrl-C, and what `poll` raises, end DuckDB's search for the next rows.

        Args:
            snapshots: What it is over.
            build: Makes it.
            poll: Called some times a second while DuckDB searches; None for nothing.

        Raises:
            InvalidRequestError: DuckDB refuses the query.
            CorruptionError: A part is damaged.
            UnavailableError: A part was deleted since the snapshot.
        """
        text = build(
            snapshots, {name: self._select(snapshot) for name, snapshot in snapshots.items()}
        )

        def opened() -> pa.RecordBatchReader:
            # Noted by the thread of the call: who waits for that may end before it does.
            self._reader = self._connection.sql(text).to_arrow_reader(_BATCH_ROWS)
            return self._reader

        with self.translated():
            reader = self._calls.call(opened, poll)
        return reader.schema, self._batches(reader, poll)

    def release(self) -> None:
        """Let go of the rows and parts of the last query, and of what it has not told yet."""
        reader, self._reader = self._reader, None
        if reader is not None:
            # NOTE: DuckDB (2.0) does nothing else while there is more, whoever still refers to it.
            reader.close()
        for name in self._hot:
            self._connection.unregister(name)
        for stream in self._streams:
            self._files.forget(stream)
        self._hot.clear()
        self._streams.clear()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of DuckDB's, with the error of a part where there was one."""
        self._files.take_failure()
        try:
            with translated():
                yield
        except ShardlogError as error:
            failure = self._files.take_failure()
            if failure is not None and failure is not error:
                raise failure from error
            raise

    def failure_of(self, error: Exception) -> BaseException:
        """Return the translation of an error after the first rows."""
        return self._files.take_failure() or as_shardlog_error(error)

    def _select(self, snapshot: PooledSnapshot) -> str:
        """Return the SELECT of a snapshot's rows."""
        listed = [
            ListedPart(snapshot.stream, part.shard, part.path, part.entry, opener_of(part))
            for part in snapshot.parts
        ]
        self._streams.add(snapshot.stream)
        with self._files.listing(snapshot.stream, listed):
            names = []
            for _, table in snapshot.rows.hot:
                name = f"hot {len(self._hot)}"
                self._hot.append(name)
                self._connection.register(name, table)
                names.append(quoted(name))
        urls = {str(part.path): part.url for part in listed}
        return select_of(snapshot.rows, urls, names)

    def _batches(
        self, reader: pa.RecordBatchReader, poll: Callable[[], None] | None
    ) -> Iterator[pa.RecordBatch]:
        def following() -> pa.RecordBatch | None:
            return next_batch(reader, self)

        while (batch := self._calls.call(following, poll)) is not None:
            yield batch
