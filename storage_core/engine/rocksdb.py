"""A shard's key-value store: a RocksDB open for writing, or beside a writer of another process.

Only this file and its neighbour `rocksdb_binding.py` import rocksdict.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from rocksdict import (
    AccessType,
    BottommostLevelCompaction,
    CompactOptions,
    DbClosedError,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from storage_core.engine.database_process import refuse_writing_in_fork
from storage_core.engine.key_value import Batch, Recovery
from storage_core.engine.log_compaction import LogCompactor, SstFile, parse_log_files
from storage_core.engine.obsolete_files import ObsoleteFiles
from storage_core.engine.open_files import open_files
from storage_core.engine.rocksdb_binding import (
    OPENING_KINDS,
    WRITE_BUFFER_BYTES,
    open_database,
    read_options,
    share_write_buffers,
    translated_errors,
)
from storage_core.engine.rocksdb_snapshot import Cursor, RocksDbSnapshot
from storage_core.engine.segments import (
    APART_BYTES_MIN,
    SEGMENT_BYTES,
    LiveSegments,
    SegmentReader,
    SegmentWriter,
)
from storage_core.engine.store_mirror import StoreMirror, may_write_config
from storage_core.errors import (
    ClosedError,
    CorruptionError,
)
from storage_core.format.keys import (
    FAMILY_DEFAULT,
    FAMILY_LOG,
    PREFIX_SEGMENT,
    decode_segment_key,
    prefix_end,
    segment_key,
)
from storage_core.format.shard_state import (
    KEY_SEGMENTS,
    KEY_SEGMENTS_BEGIN,
    decode_int,
    decode_segment,
    decode_segments_end,
)
from storage_core.platform import fork_guard

# One lookup holds the lock for so many keys at most.
_KEYS_AT_ONCE: Final = 1024


class RocksDbStore:
    """A RocksDB open for writing, or as a secondary of a writer in another process."""

    def __init__(
        self,
        path: Path,
        database: Rdict,
        *,
        segments: SegmentWriter | None = None,
        mirror: StoreMirror | None = None,
    ) -> None:
        """Take over an open database, a writer's with its segments."""
        self.path = path
        self._segments = segments
        self._mirror = mirror
        self._segment_reader = SegmentReader(path)
        self._database: Any = database
        self._log: Any = database.get_column_family(FAMILY_LOG)
        self._log_handle: Any = database.get_column_family_handle(FAMILY_LOG)
        # Held while the database is asked for something that `close` must not come between.
        # Reentrant: a signal handler may read from what it interrupts.
        self._lock = threading.RLock()
        self._snapshots: WeakSet[RocksDbSnapshot] = WeakSet()
        self._obsolete = ObsoleteFiles(path)
        self._is_closed = False
        self._opened_in: int | None = None
        self._compactor = None if segments is None else LogCompactor(self)
        fork_guard.register(self)

    def write(self, batch: Batch) -> None:
        """Write a batch, not yet durable; of a large one the blocks are, in a segment."""
        self._opened()
        if self._segments is not None:
            self._segments.take_blocks(batch)
        with translated_errors(self.path, "writing"):
            writing = WriteBatch(raw_mode=True)
            log_bytes = 0
            for family, key in batch.deletes:
                writing.delete(key, self._log_handle if family == FAMILY_LOG else None)
            for family, start, end in batch.range_deletes:
                handle = self._log_handle if family == FAMILY_LOG else None
                writing.delete_range(start, end, handle)
            for family, key, value in batch.puts:
                if family == FAMILY_LOG:
                    writing.put(key, value, self._log_handle)
                    log_bytes += len(value)
                else:
                    writing.put(key, value)
            for keys, values in batch.puts_of_many:
                # In C: of many heads each takes less than a round of a loop.
                deque(map(writing.put, keys, values), maxlen=0)
            # IMPORTANT: no snapshot is opened meanwhile. Its iterators are opened one by one, and
            # must not differ in what is deleted.
            with self._lock if batch.deletes or batch.range_deletes else nullcontext():
                self._opened().write(writing)
        self._obsolete.delete_unused()
        # What writes no blocks may do so beside what does.
        if self._compactor is not None and log_bytes:
            self._compactor.count_written(log_bytes)

    def sync(self) -> None:
        """Make everything written durable."""
        with translated_errors(self.path, "syncing"):
            self._opened().flush_wal(True)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return values of the default family. For a writer's own store only."""
        assert self._segments is not None, "a secondary's get goes stale"
        values: list[bytes | None] = []
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            with translated_errors(self.path, "reading"), self._lock:
                values += self._opened().get(keys[begin : begin + _KEYS_AT_ONCE])
        return values

    def snapshot(self) -> RocksDbSnapshot:
        """Return a snapshot of this moment."""
        with translated_errors(self.path, "reading"), self._lock:
            snapshot = RocksDbSnapshot(
                self.path, translated_errors(self.path, "reading"), self._segment_reader
            )
            self._snapshots.add(snapshot)
            # IMPORTANT: zones before blocks, so that every zone seen has its block.
            sources = {FAMILY_DEFAULT: self._opened(), FAMILY_LOG: self._log}
            snapshot.begin(
                {family: partial(of.iter, read_options(family)) for family, of in sources.items()}
            )
            return snapshot

    def catch_up(self) -> None:
        """Follow the writer to about now (a secondary only)."""
        with translated_errors(self.path, "following the writer"):
            if self._mirror is not None:
                self._mirror.follow()
            self._opened().try_catch_up_with_primary()

    def flush(self) -> None:
        """Move what is in memory to files. For tests: family by family, not at one point."""
        with translated_errors(self.path, "flushing"):
            self._opened().flush()
            self._log.flush()

    def log_files(self) -> list[SstFile]:
        """Return the files of the log family by their first keys."""
        with translated_errors(self.path, "listing files"):
            listed = self._log.property_value("rocksdb.sstables")
            return parse_log_files(listed, self._opened().live_files())

    def is_readable(self, file: SstFile, may_go_on: Callable[[], bool]) -> bool:
        """Tell whether every block of a file can be read; False if it was left early."""
        reading = translated_errors(self.path, "reading")
        cursor = Cursor(self._log.iter(ReadOptions()), self.path, reading)
        try:
            return cursor.reads_through(file.first, file.last, may_go_on)
        except CorruptionError:
            return False
        finally:
            cursor.release()

    def compact(self, first: bytes, last: bytes) -> None:
        """Rewrite what lies between two keys of the log family, both included, as one file."""
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        with translated_errors(self.path, "compacting files"):
            self._log.compact_range(first, last, options)

    def free(
        self,
        blocks: Sequence[tuple[bytes, bytes]],
        segments: Sequence[int],
        files: Sequence[Path] = (),
    ) -> None:
        """Give back what nothing durable refers to, blocks behind; and what was refused before."""
        with self._lock:
            if self._is_closed:
                # Another store may have these names by then; whoever opens it deletes them.
                return
            snapshots = list(self._snapshots)
        self._obsolete.add(segments, files, snapshots)
        if blocks and self._compactor is not None:
            self._compactor.remove(blocks)

    def remove_blocks(self, start: bytes, end: bytes) -> None:
        """Remove the blocks from one key to before another."""
        with translated_errors(self.path, "removing blocks"):
            self._log.delete_range(start, end)

    def has_blocks(self, start: bytes, end: bytes) -> bool:
        """Tell whether there is any block from one key to before another."""
        reading = translated_errors(self.path, "reading")
        cursor = Cursor(self._log.iter(read_options(FAMILY_LOG)), self.path, reading)
        try:
            item = cursor.seek(start, backwards=False)
            return item is not None and item[0] < end
        finally:
            cursor.release()

    def close(self) -> None:
        """Close the store and every snapshot of it; once interrupted it may be called again."""
        if self._compactor is not None:
            self._compactor.stop()
        with self._lock:
            # IMPORTANT: refused first, listed then; no snapshot is made behind the list.
            self._is_closed = True
            snapshots = list(self._snapshots)
        for snapshot in snapshots:
            snapshot.close()
        self._obsolete.delete_rest()
        self._log_handle = None
        if self._segments is not None:
            self._segments.close()
        self._segment_reader.close()
        try:
            # What interrupted an earlier call may have come when all was closed.
            with (
                translated_errors(self.path, "closing"),
                suppress(DbClosedError),
                ExitStack() as both,
            ):
                if self._database is not None:
                    both.callback(self._database.close)
                    # NOTE: one that is let go of unclosed is flushed with the interpreter held.
                    both.callback(self._log.close)
            self._log = self._database = None
        finally:
            open_files().closed(self)
            share_write_buffers()

    def leave_to_parent(self, process: int) -> None:
        """Leave the database as it is; who had the lock is not in this process.

        NOTE: ending a database, or an iterator, RocksDB clears files away that it does not know
        of, those that the parent has written since, and waits for threads that a fork has not.
        """
        self._lock = threading.RLock()
        self._opened_in = process
        for snapshot in list(self._snapshots):
            snapshot.leave_to_parent(process)
        for thing in (self._database, self._log, self._log_handle):
            fork_guard.keep_for_ever(thing)
        self._database = self._log = self._log_handle = None

    def _opened(self) -> Any:
        if self._opened_in is not None:
            raise fork_guard.opened_elsewhere(self._opened_in, path=self.path)
        if self._is_closed:
            message = "the store is closed"
            raise ClosedError(message, path=self.path)
        return self._database


def open_store(  # noqa: PLR0913 - what tests make small
    path: Path,
    recovery: Recovery,
    write_buffer_bytes: int = WRITE_BUFFER_BYTES,
    tables_open: int | None = None,
    apart_bytes_min: int = APART_BYTES_MIN,
    segment_bytes: int = SEGMENT_BYTES,
) -> RocksDbStore:
    """Open a shard's store for writing, making it if it is not there.

    Of its files it keeps `tables_open` open, by default its share of what the process may. The
    blocks of a batch with at least `apart_bytes_min` bytes of them go to a segment,
    and one of `segment_bytes` is followed by the next.

    Raises:
        CorruptionError: This recovery mode refuses what it found, or a segment is not all there.
    """
    refuse_writing_in_fork()
    with translated_errors(path, f"opening ({recovery} recovery)", OPENING_KINDS):
        tables = tables_open or open_files().tables_for_one_more()
        access = AccessType.read_write()
        database = open_database(path, access, recovery, write_buffer_bytes, tables)
        try:
            data = database.get(KEY_SEGMENTS)
            segments_end = None if data is None else decode_segments_end(data)
            live_segments = (
                LiveSegments() if segments_end is None else _live_segments(path, database)
            )
            segments = SegmentWriter(
                path, segments_end, segment_bytes, apart_bytes_min, live_segments
            )
            store = RocksDbStore(path, database, segments=segments)
        except BaseException:
            database.close()
            raise
    open_files().opened(store, tables, path.parent)
    share_write_buffers()
    return store


def _live_segments(path: Path, database: Rdict) -> LiveSegments:
    data = database.get(KEY_SEGMENTS_BEGIN)
    begin = 1 if data is None else decode_int(data)
    cursor = Cursor(
        database.iter(read_options(FAMILY_DEFAULT)), path, translated_errors(path, "reading")
    )
    try:
        listed = list(cursor.items(segment_key(begin), prefix_end(PREFIX_SEGMENT)))
    finally:
        cursor.release()
    gone = (decode_segment_key(key) for key, value in listed if decode_segment(value)[1])
    return LiveSegments(begin, frozenset(gone))


def open_secondary(path: Path, private: Path) -> RocksDbStore:
    """Open a store that another process writes; `private` is for this instance alone."""
    with translated_errors(path, "opening as a reader", OPENING_KINDS):
        mirror = None if may_write_config(path) else StoreMirror(path, private / "store")
        access = AccessType.secondary(str(private))
        database = open_database(path if mirror is None else mirror.path, access)
        return RocksDbStore(path, database, mirror=mirror)
