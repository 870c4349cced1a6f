"""How rocksdict is used: the options of both families, and its errors as the log's own.

Two families under `atomic_flush` (without it, damage to a WAL can leave them at different
points), raw mode (any other executes pickles on read), strict WAL recovery (any other drops
synced records without a word). One block cache and one write-buffer budget serve the process.

rocksdict raises plain `Exception` with RocksDB's status as text; the one table that gives it a
kind is here. The first row that matches decides.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBufferManager,
)

from storage_core.engine.database_process import note_opening
from storage_core.engine.key_value import Recovery
from storage_core.engine.left_config import CONFIG_FILE
from storage_core.engine.open_files import open_files
from storage_core.errors import (
    ClosedError,
    CorruptionError,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    UnavailableError,
)
from storage_core.format.keys import FAMILY_DEFAULT, FAMILY_LOG
from storage_core.platform.malloc import keep_large_buffers

BLOCK_CACHE_BYTES: Final = 32 * 2**20
# For all stores of the process together: so much, or so much each where they are many.
WRITE_BUFFERS_BYTES: Final = 96 * 2**20
WRITE_BUFFERS_BYTES_EACH: Final = 2 * 2**20
WRITE_BUFFER_BYTES: Final = 16 * 2**20
WAL_BYTES_MAX: Final = 64 * 2**20
SST_BYTES_TARGET: Final = 64 * 2**20
# Larger than anything that compaction makes: RocksDB cuts nothing of it.
LOG_SST_BYTES_TARGET: Final = 512 * 2**20
# The process-wide budget counts whole ones: of 1 MiB each, 64 shards have spent it when empty.
ARENA_BYTES: Final = 64 * 2**10
# RocksDB keeps so many of its open files for others than tables.
FILES_BESIDE_TABLES: Final = 10
_OPENING_THREADS_MAX: Final = 16

ErrorKinds = tuple[tuple[re.Pattern[str], type[ShardlogError]], ...]
# The first row that matches gives the kind.
_KINDS: Final[ErrorKinds] = (
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
OPENING_KINDS: Final[ErrorKinds] = (
    (
        re.compile(r"IO error.*(Permission denied|Operation not permitted|Read-only file system)"),
        InvalidRequestError,
    ),
    *_KINDS,
)


@cache
def _shared_cache() -> Cache:
    return Cache(BLOCK_CACHE_BYTES)


@cache
def _shared_buffers() -> WriteBufferManager:
    return WriteBufferManager(WRITE_BUFFERS_BYTES, False)


def share_write_buffers() -> None:
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


def open_database(
    path: Path,
    access: AccessType,
    recovery: Recovery = "strict",
    write_buffer_bytes: int = WRITE_BUFFER_BYTES,
    tables_open: int = 0,
) -> Rdict:
    """Open a database with both families, making it where the access allows that."""
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
    note_opening()
    return Rdict(str(path), default, families, access)


def read_options(family: str) -> ReadOptions:
    """Return how a family is iterated."""
    options = ReadOptions()
    if family == FAMILY_LOG:
        # A block's own checksum covers what this one would.
        options.set_verify_checksums(False)
    return options


class translated_errors:  # noqa: N801 - reads as a verb in `with`
    """Gives what rocksdict raises inside the block a kind and a place."""

    __slots__ = ("_doing", "_kinds", "_path")

    def __init__(self, path: Path, doing: str, kinds: ErrorKinds = _KINDS) -> None:
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
            message = f"{self._doing}: {CONFIG_FILE}: {error}"
            is_forbidden = isinstance(error, PermissionError)
            kind = InvalidRequestError if is_forbidden else UnavailableError
            raise kind(message, path=self._path) from error
        # NOTE: rocksdict raises Exception itself; anything more special is not its own.
        if type(error) is Exception:
            text = str(error)
            matching = (kind for pattern, kind in self._kinds if pattern.search(text))
            message = f"{self._doing}: {text}"
            raise next(matching, CorruptionError)(message, path=self._path) from error
