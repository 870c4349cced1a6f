"""Queries over the streams of a root that stay open: a few DuckDBs, and the streams used last.

    with StreamPool(root) as streams:
        with streams.query({"orders": None}, build) as answer:
            for batch in answer: ...

Each query has a DuckDB alone for as long as its rows are taken; whoever finds all of them taken
waits, for a bounded time. The one used last is used first, as it has cached most.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Condition, Lock
from typing import Final, Protocol, Self

import pyarrow as pa

from storage_core.catalog.root_file import list_streams
from storage_core.errors import (
    ClosedError,
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
)
from storage_core.platform.clock import SystemClock
from storage_core.platform.closing import Closing
from storage_core.platform.fork_guard import Home
from storage_core.platform.overriding import override
from storage_core.sql.engine import EngineOptions
from storage_core.sql.part_groups import SNAPSHOT_TRIES_MAX, PartGoneError
from storage_core.sql.pool.engine import Build, PooledEngine
from storage_core.sql.pool.pooled_stream import Owners, PooledColumns, PooledSnapshot, PooledStream
from storage_core.sql.query_errors import PartUnreadError

_MEMORY_BYTES_LEAST: Final = 2**28
_GONE: Final = "parts were superseded faster than they could be read; try again"


class QueriesBusyError(UnavailableError):
    """As many queries run as may at once; try again later."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Options of pooled streams.

    Attributes:
        queries_max: How many queries run at once.
        wait_s: How long another waits.
        memory_bytes_max: The memory of one query, beside hot rows; the rest spills to disk. If
            None their even share of a quarter of the memory.
        hot_bytes_max: How many bytes of hot rows stay decoded after a query.
        verify_checksums: Compare what is read of parts with their digests.
        streams_max: How many streams stay open.
    """

    queries_max: int = 4
    wait_s: float = 10.0
    memory_bytes_max: int | None = None
    hot_bytes_max: int = 2**29
    verify_checksums: bool = True
    streams_max: int = 64


class Release(Protocol):
    """Takes back what a query had."""

    def __call__(self, *, is_sound: bool) -> None:
        """Take it back; `is_sound` says whether rows came without an error."""
        ...


class PooledAnswer(Closing):
    """The rows of a query, made while they are taken. One thread at a time.

    Whoever does not take all of them closes it.
    """

    def __init__(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], release: Release
    ) -> None:
        """Take over the rows; `release` is called once, with whether they came without an error."""
        self.schema = schema
        self._batches: Iterator[pa.RecordBatch] = batches
        self._release: Release | None = release
        try:
            # Small answers hold nothing back.
            first = [*_some(batches, 2)]
        except BaseException:
            # The caller has the engine still.
            self._release = None
            raise
        self.is_empty = not first
        self._first = iter(first)
        if len(first) < 2:  # noqa: PLR2004 - there are no more
            self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            batch = next(self._first, None)
            if batch is None and self._release is not None:
                batch = next(self._batches, None)
        except BaseException:
            self._end(is_sound=False)
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    @override
    def close(self) -> None:
        """Let go of rows that are not wanted; closing twice is fine."""
        self._end(is_sound=True)

    def _end(self, *, is_sound: bool) -> None:
        release, self._release = self._release, None
        self._batches = iter(())
        if release is not None:
            release(is_sound=is_sound)

    def __del__(self) -> None:
        """Let go of rows that nobody took."""
        self.close()


def _some(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield batch
            count -= 1
        if not count:
            return


class StreamPool(Closing):
    """The streams of a root that stay open. Any thread."""

    def __init__(self, root: str | PathLike[str], options: PoolOptions | None = None) -> None:
        """Open nothing yet."""
        self._root = Path(root).absolute()
        self._options = options or PoolOptions()
        self._clock = SystemClock()
        self._lock = Lock()
        self._streams: OrderedDict[str, PooledStream] = OrderedDict()
        # Who opens a stream holds its lock alone: a slow disk holds up nobody else.
        self._opening: dict[str, Lock] = {}
        self._home = Home()
        self._freed = Condition(Lock())
        self._idle: list[PooledEngine] = []
        self._engines = 0
        self._is_closed = False

    def names(self) -> list[str]:
        """Return the names of all streams."""
        return list_streams(self._root)

    def open_first(self, names: Iterable[str]) -> list[str]:
        """Return names with those of open streams first.

        Where more are asked than stay open, those that are would else be closed just before they
        are asked.
        """
        with self._lock:
            return sorted(names, key=lambda name: name not in self._streams)

    def has_keys(self, name: str) -> bool:
        """Tell whether rows of a stream belong to keys.

        Raises:
            InvalidRequestError: There is no such stream.
        """
        return self._opened(name)[0].has_keys

    def columns(self, name: str) -> PooledColumns:
        """Return the columns of a stream as they are now.

        Raises:
            ShardlogError: As by `snapshot`.
        """
        stream, is_new = self._opened(name)
        try:
            return stream.columns()
        except ShardlogError:
            # The stream may have been made anew.
            self._forget(name, stream)
            if is_new:
                raise
        return self._opened(name)[0].columns()

    def snapshot(self, name: str, owners: Owners | None = None) -> PooledSnapshot:
        """Return a snapshot of a stream.

        Args:
            name: The stream.
            owners: Only the hot rows of these keys or ids; parts may still have others.

        Raises:
            InvalidRequestError: There is no such stream.
        """
        for _ in range(SNAPSHOT_TRIES_MAX):
            stream, is_new = self._opened(name)
            try:
                return stream.snapshot(owners)
            except PartGoneError:
                continue
            except ShardlogError:
                # The stream may have been made anew.
                self._forget(name, stream)
                if is_new:
                    raise
        raise UnavailableError(_GONE, stream=name)

    def row_digests(
        self, snapshot: PooledSnapshot, addresses: Mapping[int, int]
    ) -> dict[int, str | None]:
        """Return the digest of a row of each shard, as PooledStream has it."""
        return self._opened(snapshot.stream)[0].row_digests(snapshot, addresses)

    def first_behind(self, snapshot: PooledSnapshot) -> int | None:
        """Return the least primary of what came behind a snapshot, as PooledStream has it."""
        return self._opened(snapshot.stream)[0].first_behind(snapshot)

    def query(
        self,
        wanted: Mapping[str, Owners | None],
        build: Build,
        poll: Callable[[], None] | None = None,
    ) -> PooledAnswer:
        """Return the rows of a query over snapshots of some streams.

        Args:
            wanted: The streams, and the keys or ids whose rows alone are wanted; the query has a
                condition for that, too.
            build: Makes the query.
            poll: Called some times a second while DuckDB searches for rows, by the thread that
                waits for them; what it raises ends the query. None for nothing.

        Raises:
            QueriesBusyError: All queries that may run at once ran for too long.
            ShardlogError: As by `snapshot`, or the query fails.
        """
        for _ in range(SNAPSHOT_TRIES_MAX):
            engine = self._take()
            try:
                taken = {
                    name: self.snapshot(name, wanted[name]) for name in self.open_first(wanted)
                }
                snapshots = {name: taken[name] for name in wanted}
                schema, batches = engine.query(snapshots, build, poll)
                return PooledAnswer(schema, batches, partial(self._free, engine))
            except PartGoneError:
                self._free(engine, is_sound=True)
            except BaseException as error:
                # Others may have broken it for good.
                is_sound = type(error) is not PartUnreadError
                self._free(engine, is_sound=is_sound and isinstance(error, InvalidRequestError))
                raise
        raise UnavailableError(_GONE)

    @override
    def close(self) -> None:
        """Close all; a query that runs ends by an error, or with its rows.

        In a fork nothing is closed: all is the parent's.
        """
        if self._home.is_elsewhere:
            return
        with self._freed:
            self._is_closed = True
            idle, self._idle = self._idle, []
            self._freed.notify_all()
        for engine in idle:
            engine.close()
        with self._lock:
            streams = [*self._streams.values()]
            self._streams.clear()
        for stream in streams:
            stream.close()

    def _opened(self, name: str) -> tuple[PooledStream, bool]:
        """Return a stream, and whether it was opened now."""
        with self._lock:
            if name in self._streams:
                self._streams.move_to_end(name)
                return self._streams[name], False
            opening = self._opening.setdefault(name, Lock())
        with opening:
            with self._lock:
                if name in self._streams:
                    return self._streams[name], False
            try:
                return self._added(name, PooledStream(self._root, name))
            finally:
                with self._lock:
                    self._opening.pop(name, None)

    def _added(self, name: str, stream: PooledStream) -> tuple[PooledStream, bool]:
        """Keep a stream open; return it, or the one that is, and whether it is the former."""
        left: PooledStream | None
        before: PooledStream | None
        with self._lock:
            if self._is_closed:
                left, before = stream, None
            elif name in self._streams:
                left, before = stream, self._streams[name]
            else:
                before = self._streams[name] = stream
                # Whoever takes a snapshot of it right now tries again with a new one.
                is_full = len(self._streams) > self._options.streams_max
                left = self._streams.popitem(last=False)[1] if is_full else None
        if left is not None:
            left.close()
        if before is None:
            message = "the streams are closed"
            raise ClosedError(message)
        return before, before is stream

    def _forget(self, name: str, stream: PooledStream) -> None:
        with self._lock:
            if self._streams.get(name) is stream:
                del self._streams[name]
        stream.close()

    def _take(self) -> PooledEngine:
        """Return a DuckDB that nobody uses."""
        deadline = self._clock.monotonic_s() + self._options.wait_s
        with self._freed:
            while not self._is_closed and not self._idle:
                if self._engines < self._options.queries_max:
                    self._engines += 1
                    break
                left = deadline - self._clock.monotonic_s()
                if left <= 0 or not self._freed.wait(left):
                    message = f"{self._engines} queries run already; try again"
                    raise QueriesBusyError(message)
            if self._is_closed:
                message = "the streams are closed"
                raise ClosedError(message)
            if self._idle:
                return self._idle.pop()
        try:
            return PooledEngine(self._engine_options())
        except BaseException:
            with self._freed:
                self._engines -= 1
                self._freed.notify()
            raise

    def _free(self, engine: PooledEngine, *, is_sound: bool) -> None:
        if self._home.is_elsewhere:
            return
        is_kept = False
        try:
            engine.release()
        finally:
            with self._freed:
                is_kept = is_sound and not self._is_closed
                if is_kept:
                    self._idle.append(engine)
                else:
                    self._engines -= 1
                self._freed.notify()
            if not is_kept:
                engine.close()
        self._forget_rows()

    def _forget_rows(self) -> None:
        """Drop hot rows of the streams used longest ago, beyond the limit."""
        with self._lock:
            streams = [*self._streams.values()]
        total = 0
        for stream in reversed(streams):
            total += stream.cache_bytes
            if total > self._options.hot_bytes_max:
                stream.forget_rows()

    def _engine_options(self) -> EngineOptions:
        memory = self._options.memory_bytes_max
        if memory is None:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            memory = max(total // 4 // self._options.queries_max, _MEMORY_BYTES_LEAST)
        return EngineOptions(memory, self._options.verify_checksums)
