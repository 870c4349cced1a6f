"""DuckDB: how it is opened for SQL over streams, with its limits and what it may access."""

import atexit
import os
import secrets
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final
from weakref import WeakSet

from storage_core.errors import InvalidRequestError
from storage_core.platform.loading import uninterrupted
from storage_core.sql.part_files import PROTOCOL, PartFiles

# With much less memory DuckDB fails at anything.
MEMORY_BYTES_LEAST: Final = 32 * 2**20
_NOT_INSTALLED: Final = "SQL needs DuckDB and fsspec: pip install 'shardlog[sql]'"
# A worker beside it needs memory, too; DuckDB's (2.0) default is 80 %.
_MEMORY_SHARE: Final = "25%"
_LARGE_UNITS: Final = ("GiB", "TiB")
# In this order: after the second no directory can be allowed, after the last nothing can be set.
_LOCKDOWN: Final = (
    f"SET allowed_directories = ['{PROTOCOL}://']",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
# NOTE: DuckDB (2.0) takes our files for local ones, which it reads again for each query, through
# Python, after a check for changes. It caches blocks of 16 KiB unless set; a file smaller than the
# block size is read whole.
_FILE_CACHE: Final = (
    "SET cache_local_files = true",
    "SET validate_external_file_cache = 'NO_VALIDATION'",
    f"SET external_file_cache_local_max_block_size = {2**20}",
)
_NO_EXTENSIONS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_open_connections: Final[WeakSet[Any]] = WeakSet()
# A forked child has none of the threads that closing waits for.
os.register_at_fork(after_in_child=_open_connections.clear)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of SQL over streams.

    Attributes:
        memory_bytes_max: DuckDB's memory limit; if None a quarter of the memory, and at least one
            GiB.
        verify_checksums: Compare what it reads of parts with their digests.
        allow_external_access: Let it read and write other files, and load extensions.
        cache_bytes: Cache what it read of parts for later queries, within its memory; never with
            external access, as other files change.
        report_progress: Track the progress of a query.
    """

    memory_bytes_max: int | None = None
    verify_checksums: bool = True
    allow_external_access: bool = False
    cache_bytes: bool = True
    report_progress: bool = False


def open_engine(options: EngineOptions, files: PartFiles) -> Any:  # noqa: ANN401 - a connection
    """Return a connection to a new DuckDB with these limits.

    Args:
        options: Its limits and access.
        files: The parts that it may read.

    Raises:
        InvalidRequestError: DuckDB is not installed, or the memory limit is too small.
    """
    memory_bytes = options.memory_bytes_max
    if memory_bytes is not None and memory_bytes < MEMORY_BYTES_LEAST:
        message = f"memory_bytes_max is {memory_bytes}; the minimum is {MEMORY_BYTES_LEAST}"
        raise InvalidRequestError(message)
    memory_limit = _MEMORY_SHARE if memory_bytes is None else f"{memory_bytes}B"
    extensions = {} if options.allow_external_access else _NO_EXTENSIONS
    connection = import_duckdb().connect(config=_config(memory_limit) | extensions)
    try:
        (memory_limit,) = connection.execute("SELECT current_setting('memory_limit')").fetchone()
        if memory_bytes is None and not memory_limit.endswith(_LARGE_UNITS):
            connection.execute("SET memory_limit = '1GiB'")
        # NOTE: the default of DuckDB (2.0) is 90 % of the free space. It ignores this setting when
        # it is set together with the directory, on opening.
        free = shutil.disk_usage(gettempdir()).free
        connection.execute(f"SET max_temp_directory_size = '{free // 2}B'")
        if not options.allow_external_access:
            _enable_caches(connection, cache_bytes=options.cache_bytes)
        # NOTE: DuckDB (2.0) tracks progress only with its own progress bar, which costs a query
        # some milliseconds.
        connection.execute(f"SET enable_progress_bar = {str(options.report_progress).lower()}")
        connection.execute("SET enable_progress_bar_print = false")
        # Else timestamps are compared and truncated in the time zone of the process.
        connection.execute("SET TimeZone = 'UTC'")
        connection.register_filesystem(_file_system(files))
        if not options.allow_external_access:
            _lock_down(connection)
    except BaseException:
        connection.close()
        raise
    _open_connections.add(connection)
    return connection


@atexit.register
def _close_connections() -> None:
    """Close connections that were left open, while there is still an interpreter.

    IMPORTANT: a thread of DuckDB may close a file of ours after its query. Once the interpreter has
    ended it can no longer call into Python, and the process would abort.
    """
    for connection in list(_open_connections):
        connection.close()


def _enable_caches(connection: Any, *, cache_bytes: bool) -> None:  # noqa: ANN401 - DuckDB's
    """Cache what was read of parts and verified for later queries; a part never changes.

    IMPORTANT: other files do, and DuckDB (2.0) caches all alike: a file that is written again
    within a second, with the same size, would be read from the cache.
    """
    # NOTE: DuckDB (2.0) would parse the footers of all files for each query.
    connection.execute("SET parquet_metadata_cache = true")
    for statement in _FILE_CACHE if cache_bytes else ():
        try:
            connection.execute(statement)
        except import_duckdb().CatalogException:
            # NOTE: DuckDB (1.4) has no such cache.
            return


def open_parser(*, allow_external_access: bool) -> Any:  # noqa: ANN401 - a connection
    """Return a connection without tables, to parse statements."""
    parser = import_duckdb().connect(config={**_NO_VARIABLES, "threads": "1", **_NO_EXTENSIONS})
    if not allow_external_access:
        _lock_down(parser)
    return parser


def _lock_down(connection: Any) -> None:  # noqa: ANN401 - DuckDB's
    """Allow access to parts only: no other file, no network, no extension, no setting."""
    for statement in _LOCKDOWN:
        connection.execute(statement)


# A table name is a stream, never a variable of the calling program.
_NO_VARIABLES: Final = {"python_enable_replacements": "false"}


def _config(memory_limit: str) -> dict[str, str]:
    directory = Path(gettempdir()) / f"shardlog-sql-{os.getpid()}-{secrets.token_hex(4)}"
    return {
        **_NO_VARIABLES,
        "memory_limit": memory_limit,
        # Spilled data would else be in the working directory, under names that another process
        # there uses, too. DuckDB creates this directory and removes it.
        "temp_directory": str(directory),
    }


def _file_system(files: PartFiles) -> object:
    try:
        from storage_core.sql.part_file_system import PartFileSystem  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise InvalidRequestError(_NOT_INSTALLED) from error
    return PartFileSystem(files)


@cache
def import_duckdb() -> Any:  # noqa: ANN401 - a module that may be missing
    """Return DuckDB, or raise with how to install it."""
    try:
        with uninterrupted():
            import duckdb  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise InvalidRequestError(_NOT_INSTALLED) from error
    return duckdb
