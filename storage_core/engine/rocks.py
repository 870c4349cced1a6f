"""The only file that knows rocksdict: a shard's key-value store.

Two families under `atomic_flush` (without it, damage to a WAL can leave them at different
points), raw mode (any other executes pickles on read), strict WAL recovery (any other drops
synced records without a word). One block cache and one write-buffer budget serve the process.

rocksdict raises plain `Exception` with RocksDB's status as text; `_translated` holds the one
table that gives it a kind.
"""

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
)

from storage_core.engine.joining import LogJoiner, StoredFile, files_listed
from storage_core.engine.key_value import Batch, Recovery
from storage_core.engine.open_files import open_files
from storage_core.engine.rocks_view import Cursor, RocksView
from storage_core.engine.segments import (
    APART_BYTES_MIN,
    SEGMENT_BYTES,
    SegmentReader,
    SegmentsKept,
    SegmentWriter,
)
from storage_core.engine.unseen_files import UnseenFiles
from storage_core.errors import (
    ClosedError,
    CorruptionError,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    UnavailableError,
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
from storage_core.platform import forking
from storage_core.platform.malloc import keep_large_buffers

BLOCK_CACHE_BYTES: Final = 32 * 2**20
# For all stores of the process together: so much, or so much each where they are many.
WRITE_BUFFERS_BYTES: Final = 96 * 2**20
WRITE_BUFFERS_BYTES_EACH: Final = 2 * 2**20
WRITE_BUFFER_BYTES: Final = 16 * 2**20
WAL_BYTES_MAX: Final = 64 * 2**20
# The process that opened the first database, and has RocksDB's threads.
_opened_in: Final[list[int]] = []
# A reader's lookups keep a writer's waiting for no longer than so many.
_KEYS_AT_ONCE: Final = 1024
SST_BYTES_TARGET: Final = 64 * 2**20
# Larger than anything that joining makes: RocksDB cuts nothing of it.
LOG_SST_BYTES_TARGET: Final = 512 * 2**20
# The process-wide budget counts whole ones: of 1 MiB each, 64 shards have spent it when empty.
ARENA_BYTES: Final = 64 * 2**10
# RocksDB keeps so many of its open files for others than tables.
FILES_BESIDE_TABLES: Final = 10
_OPENING_THREADS_MAX: Final = 16
_CONFIG_FILE: Final = "rocksdict-config.json"

_Kinds = tuple[tuple[re.Pattern[str], type[ShardlogError]], ...]
# The first row that matches gives the kind.
_KINDS: Final[_Kinds] = (
    (re.compile(r"lock hold by current process|While lock file"), ShardLockedError),
    (
        re.compile(r"^Corruption|SST file is ahead of WALs|bad magic|checksum mismatch"),
        CorruptionError,
    ),
    (re.compile(r"does not exist|No such file|missing files"), CorruptionError),
    (re.compile(r"^(IO error|Shutdown in progress|Incomplete|Busy|TimedOut)"), UnavailableError),
    # rocksdict's own file, of which it says what the system does.
    (re.compile(r"\(os error \d+\)$"), UnavailableError),
)
# Before them where a store is opened: rights that lack do not pass by themselves.
_KINDS_OF_OPENING: Final[_Kinds] = (
    (
        re.compile(r"IO error.*(Permission denied|Operation not permitted|Read-only file system)"),
        InvalidRequestError,
    ),
    *_KINDS,
)


class _translated:  # noqa: N801 - reads as a verb in `with`
    """Gives what rocksdict raises inside the block a kind and a place."""

    __slots__ = ("_doing", "_kinds", "_path")

    def __init__(self, path: Path, doing: str, kinds: _Kinds = _KINDS) -> None:
        self._path = path
        self._doing = doing
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DbClosedError):
            message = f"{self._doing}: the store is closed"
            raise ClosedError(message, path=self._path) from error
        if isinstance(error, OSError):
            # NOTE: rocksdict writes its own file beside the store at each opening, readers' too.
            message = f"{self._doing}: {_CONFIG_FILE}: {error}"
            is_forbidden = isinstance(error, PermissionError)
            kind = InvalidRequestError if is_forbidden else UnavailableError
            raise kind(message, path=self._path) from error
        # NOTE: rocksdict raises Exception itself; anything more special is not its own.
        if type(error) is Exception:
            text = str(error)
            matching = (kind for pattern, kind in self._kinds if pattern.search(text))
            message = f"{self._doing}: {text}"
            raise next(matching, CorruptionError)(message, path=self._path) from error


def refuse_writing_in_fork() -> None:
    """Raise in a fork of a process that has opened a database.

    Raises:
        InvalidRequestError: RocksDB takes its parent's threads for its own; the first flush would
            wait for ever. Reading does without.
    """
    if _opened_in and _opened_in[0] != os.getpid():
        message = (
            f"this process is a fork of process {_opened_in[0]}, which has RocksDB's threads: "
            "start processes that write by spawn, or fork before a stream is opened"
        )
        raise InvalidRequestError(message)


@cache
def _shared_cache() -> Cache:
    return Cache(BLOCK_CACHE_BYTES)


@cache
def _shared_buffers() -> WriteBufferManager:
    return WriteBufferManager(WRITE_BUFFERS_BYTES, False)


def _share_buffers() -> None:
    """Let the budget for all grow with the stores, so that none is flushed nearly empty."""
    buffers_bytes = WRITE_BUFFERS_BYTES_EACH * open_files().stores
    _shared_buffers().set_buffer_size(max(WRITE_BUFFERS_BYTES, buffers_bytes))


def _options(family: str, recovery: Recovery, write_buffer_bytes: int, tables_open: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_paranoid_checks(True)
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_write_buffer_size(write_buffer_bytes)
    options.set_write_buffer_manager(_shared_buffers())
    options.set_arena_block_size(ARENA_BYTES)
    options.set_max_open_files(tables_open + FILES_BESIDE_TABLES if tables_open else -1)
    # Otherwise each of 64 parts of the table cache keeps one file at least.
    options.set_table_cache_num_shard_bits(0)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(2**20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    is_strict = recovery == "strict"
    mode = DBRecoveryMode.absolute_consistency if is_strict else DBRecoveryMode.point_in_time
    options.set_wal_recovery_mode(mode())
    table = BlockBasedOptions()
    if family == FAMILY_LOG:
        # Blocks compress themselves, are large, and live in the page cache.
        options.set_compression_type(DBCompressionType.none())
        options.set_target_file_size_base(LOG_SST_BYTES_TARGET)
        table.disable_cache()
    else:
        options.set_compression_type(DBCompressionType.lz4())
        options.set_target_file_size_base(SST_BYTES_TARGET)
        table.set_block_cache(_shared_cache())
        table.set_bloom_filter(10, False)
        # A file of which 2,048 among 4,096 neighbours are deletes is compacted by itself.
        options.add_compact_on_deletion_collector_factory(4096, 2048, 0.0)
    options.set_block_based_table_factory(table)
    return options


def _open_database(
    path: Path,
    access: AccessType,
    recovery: Recovery = "strict",
    write_buffer_bytes: int = WRITE_BUFFER_BYTES,
    tables_open: int = 0,
) -> Rdict:
    families = {
        family: _options(family, recovery, write_buffer_bytes, tables_open)
        for family in (FAMILY_DEFAULT, FAMILY_LOG)
    }
    default = _options(FAMILY_DEFAULT, recovery, write_buffer_bytes, tables_open)
    # NOTE: RocksDB starts as many as it may, though there are no tables for them: 15 take 2 ms.
    # A secondary would start them anew in every catch-up.
    tables = sum(1 for _ in path.glob("*.sst")) if tables_open else 0
    default.set_max_file_opening_threads(max(1, min(tables, _OPENING_THREADS_MAX)))
    keep_large_buffers()
    if not _opened_in:
        _opened_in.append(os.getpid())
    return Rdict(str(path), default, families, access)


def _read_options(family: str) -> ReadOptions:
    options = ReadOptions()
    if family == FAMILY_LOG:
        # A block's own checksum covers what this one would.
        options.set_verify_checksums(False)
    return options


class RocksStore:
    """A RocksDB open for writing, or as a secondary of a writer in another process."""

    def __init__(
        self, path: Path, database: Rdict, *, segments: SegmentWriter | None = None
    ) -> None:
        """Take over an open database, a writer's with its segments."""
        self.path = path
        self._segments = segments
        self._blocks_read = SegmentReader(path)
        self._database: Any = database
        self._log: Any = database.get_column_family(FAMILY_LOG)
        self._log_handle: Any = database.get_column_family_handle(FAMILY_LOG)
        # Held while the database is asked for something that `close` must not come between.
        # Reentrant: a signal handler may read from what it interrupts.
        self._lock = threading.RLock()
        self._views: WeakSet[RocksView] = WeakSet()
        self._unseen = UnseenFiles(path)
        self._is_closed = False
        self._elsewhere: int | None = None
        self._joiner = None if segments is None else LogJoiner(self)
        forking.register(self)

    def write(self, batch: Batch) -> None:
        """Write a batch, not yet durable; of a large one the blocks are, in a segment."""
        self._held()
        if self._segments is not None:
            self._segments.take_blocks(batch)
        with _translated(self.path, "writing"):
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
            # IMPORTANT: no view is opened meanwhile. Its iterators are opened one by one, and must
            # not find what goes in one and what takes its place in another.
            with self._lock if batch.deletes or batch.range_deletes else nullcontext():
                self._held().write(writing)
        self._unseen.remove()
        # What writes no blocks may do so beside what does.
        if self._joiner is not None and log_bytes:
            self._joiner.wrote(log_bytes)

    def sync(self) -> None:
        """Make everything written durable."""
        with _translated(self.path, "syncing"):
            self._held().flush_wal(True)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return values of the default family. For a writer's own store only."""
        assert self._segments is not None, "a secondary's get goes stale"
        values: list[bytes | None] = []
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            with _translated(self.path, "reading"), self._lock:
                values += self._held().get(keys[begin : begin + _KEYS_AT_ONCE])
        return values

    def view(self) -> RocksView:
        """Return a view of this moment."""
        with _translated(self.path, "reading"), self._lock:
            view = RocksView(self.path, _translated(self.path, "reading"), self._blocks_read)
            self._views.add(view)
            # IMPORTANT: zones before blocks, so that every zone seen has its block.
            sources = {FAMILY_DEFAULT: self._held(), FAMILY_LOG: self._log}
            view.begin(
                {family: partial(of.iter, _read_options(family)) for family, of in sources.items()}
            )
            return view

    def catch_up(self) -> None:
        """Follow the writer to about now (a secondary only)."""
        with _translated(self.path, "following the writer"):
            self._held().try_catch_up_with_primary()

    def flush(self) -> None:
        """Move what is in memory to files. For tests: family by family, not at one point."""
        with _translated(self.path, "flushing"):
            self._held().flush()
            self._log.flush()

    def log_files(self) -> list[StoredFile]:
        """Return the files of the log family by their first keys."""
        with _translated(self.path, "listing files"):
            listed = self._log.property_value("rocksdb.sstables")
            return files_listed(listed, self._held().live_files())

    def is_readable(self, file: StoredFile, goes_on: Callable[[], bool]) -> bool:
        """Tell whether every block of a file can be read; False if it was left early."""
        reading = _translated(self.path, "reading")
        cursor = Cursor(self._log.iter(ReadOptions()), self.path, reading)
        try:
            return cursor.reads_through(file.first, file.last, goes_on)
        except CorruptionError:
            return False
        finally:
            cursor.release()

    def join(self, first: bytes, last: bytes) -> None:
        """Rewrite what lies between two keys of the log family, both included, as one file."""
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        with _translated(self.path, "joining files"):
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
                # Another store may have these names by then; who opens it sweeps.
                return
            views = list(self._views)
        self._unseen.add(segments, files, views)
        if blocks and self._joiner is not None:
            self._joiner.remove(blocks)

    def remove_blocks(self, start: bytes, end: bytes) -> None:
        """Remove the blocks from one key to before another."""
        with _translated(self.path, "removing blocks"):
            self._log.delete_range(start, end)

    def has_blocks(self, start: bytes, end: bytes) -> bool:
        """Tell whether there is any block from one key to before another."""
        reading = _translated(self.path, "reading")
        cursor = Cursor(self._log.iter(_read_options(FAMILY_LOG)), self.path, reading)
        try:
            item = cursor.seek(start, backwards=False)
            return item is not None and item[0] < end
        finally:
            cursor.release()

    def close(self) -> None:
        """Close the store and every view of it; once interrupted it may be called again."""
        if self._joiner is not None:
            self._joiner.stop()
        with self._lock:
            # IMPORTANT: refused first, listed then; no view is made behind the list.
            self._is_closed = True
            views = list(self._views)
        for view in views:
            view.close()
        self._unseen.end()
        self._log_handle = None
        if self._segments is not None:
            self._segments.close()
        self._blocks_read.close()
        try:
            # What interrupted an earlier call may have come when all was closed.
            with _translated(self.path, "closing"), suppress(DbClosedError), ExitStack() as both:
                if self._database is not None:
                    both.callback(self._database.close)
                    # NOTE: one that is let go of unclosed is flushed with the interpreter held.
                    both.callback(self._log.close)
            self._log = self._database = None
        finally:
            open_files().closed(self)
            _share_buffers()

    def leave_to_parent(self, process: int) -> None:
        """Leave the database as it is; who had the lock is not in this process.

        NOTE: ending a database, or an iterator, RocksDB clears files away that it does not know
        of, those that the parent has written since, and waits for threads that a fork has not.
        """
        self._lock = threading.RLock()
        self._elsewhere = process
        for view in list(self._views):
            view.leave_to_parent(process)
        for thing in (self._database, self._log, self._log_handle):
            forking.keep_for_ever(thing)
        self._database = self._log = self._log_handle = None

    def _held(self) -> Any:
        if self._elsewhere is not None:
            raise forking.opened_elsewhere(self._elsewhere, path=self.path)
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
) -> RocksStore:
    """Open a shard's store for writing, making it if it is not there.

    Of its files it keeps `tables_open` open, by default its share of what the process may. The
    blocks of a batch with at least `apart_bytes_min` bytes of them go to a segment,
    and one of `segment_bytes` is followed by the next.

    Raises:
        CorruptionError: This recovery mode refuses what it found, or a segment is not all there.
    """
    refuse_writing_in_fork()
    with _translated(path, f"opening ({recovery} recovery)", _KINDS_OF_OPENING):
        tables = tables_open or open_files().tables_for_one_more()
        access = AccessType.read_write()
        database = _open_database(path, access, recovery, write_buffer_bytes, tables)
        try:
            data = database.get(KEY_SEGMENTS)
            noted = None if data is None else decode_segments_end(data)
            segments_kept = SegmentsKept() if noted is None else _segments_kept(path, database)
            segments = SegmentWriter(path, noted, segment_bytes, apart_bytes_min, segments_kept)
            store = RocksStore(path, database, segments=segments)
        except BaseException:
            database.close()
            raise
    open_files().opened(store, tables, path.parent)
    _share_buffers()
    return store


def _segments_kept(path: Path, database: Rdict) -> SegmentsKept:
    data = database.get(KEY_SEGMENTS_BEGIN)
    begin = 1 if data is None else decode_int(data)
    cursor = Cursor(
        database.iter(_read_options(FAMILY_DEFAULT)), path, _translated(path, "reading")
    )
    try:
        listed = list(cursor.items(segment_key(begin), prefix_end(PREFIX_SEGMENT)))
    finally:
        cursor.release()
    gone = (decode_segment_key(key) for key, value in listed if decode_segment(value)[1])
    return SegmentsKept(begin, frozenset(gone))


def open_secondary(path: Path, private: Path) -> RocksStore:
    """Open a store that another process writes; `private` is for this instance alone."""
    with _translated(path, "opening as a reader", _KINDS_OF_OPENING):
        access = AccessType.secondary(str(private))
        database = _open_database(path, access)
        return RocksStore(path, database)
