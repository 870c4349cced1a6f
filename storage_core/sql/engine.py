"""DuckDB as SQL over streams has it: how it is opened, what it may take and what it may reach."""

import atexit
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final
from weakref import WeakSet

from storage_core.errors import InvalidRequestError
from storage_core.sql.part_files import PROTOCOL, PartFiles

# The least that a caller may let it take: it fails at anything with much less.
MEMORY_BYTES_LEAST: Final = 32 * 2**20
_MISSING: Final = "SQL needs DuckDB and fsspec: pip install 'shardlog[sql]'"
# Beside a worker there is more that needs memory; DuckDB (2.0) takes four fifths unless it is told.
_MEMORY_SHARE: Final = "25%"
_IS_MUCH: Final = ("GiB", "TiB")
# In their order: behind the second no directory can be allowed, behind the last nothing be set.
_CLOSED: Final = (
    f"SET allowed_directories = ['{PROTOCOL}://']",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
# NOTE: DuckDB (2.0) takes our files for local ones, which it reads anew for each query, through
# Python, and asks whether they have changed. What it keeps it reads by 16 KiB unless told more; a
# file that is smaller than what it is told is read whole.
_KEPT_BYTES: Final = (
    "SET cache_local_files = true",
    "SET validate_external_file_cache = 'NO_VALIDATION'",
    f"SET external_file_cache_local_max_block_size = {2**20}",
)
_NO_EXTENSIONS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_open: Final[WeakSet[Any]] = WeakSet()
# A child has none of the threads that closing waits for.
os.register_at_fork(after_in_child=_open.clear)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How SQL over streams is answered.

    Attributes:
        memory_bytes_max: What DuckDB may hold in memory; if None a quarter of what there is, and
            no less than a GiB.
        verify_checksums: Compare what it reads of parts with their digests.
        allow_external_access: Let it read and write other files, and load extensions.
        keeps_bytes: Keep what it read of parts for later queries, within its memory; never where
            it may reach other files, which change.
        tells_progress: Count how far a query is.
    """

    memory_bytes_max: int | None = None
    verify_checksums: bool = True
    allow_external_access: bool = False
    keeps_bytes: bool = True
    tells_progress: bool = False


def open_engine(options: EngineOptions, files: PartFiles) -> Any:  # noqa: ANN401 - a connection
    """Return a connection to a DuckDB of its own, that is bounded.

    Args:
        options: What it may take and reach.
        files: The parts that it may read.

    Raises:
        InvalidRequestError: DuckDB is not installed, or could do nothing with so little.
    """
    wanted = options.memory_bytes_max
    if wanted is not None and wanted < MEMORY_BYTES_LEAST:
        message = f"memory_bytes_max is {wanted}; the least is {MEMORY_BYTES_LEAST}"
        raise InvalidRequestError(message)
    bound = _MEMORY_SHARE if wanted is None else f"{wanted}B"
    extensions = {} if options.allow_external_access else _NO_EXTENSIONS
    connection = duckdb_here().connect(config=_config(bound) | extensions)
    try:
        (memory_limit,) = connection.execute("SELECT current_setting('memory_limit')").fetchone()
        if wanted is None and not memory_limit.endswith(_IS_MUCH):
            connection.execute("SET memory_limit = '1GiB'")
        # NOTE: DuckDB (2.0) would let it be all that is free but a tenth. It forgets what it was
        # told of this beside the directory, at its opening.
        free = shutil.disk_usage(gettempdir()).free
        connection.execute(f"SET max_temp_directory_size = '{free // 2}B'")
        if not options.allow_external_access:
            _keep_what_stays(connection, keeps_bytes=options.keeps_bytes)
        # NOTE: DuckDB (2.0) counts only where it might draw a bar of its own, which takes some
        # milliseconds of a query.
        connection.execute(f"SET enable_progress_bar = {str(options.tells_progress).lower()}")
        connection.execute("SET enable_progress_bar_print = false")
        # Else it compares `time`, which has no zone, with times that have one by that of the
        # process, and cuts their days by it.
        connection.execute("SET TimeZone = 'UTC'")
        connection.register_filesystem(_file_system(files))
        if not options.allow_external_access:
            _close_to_the_outside(connection)
    except BaseException:
        connection.close()
        raise
    _open.add(connection)
    return connection


@atexit.register
def _close_open() -> None:
    """Close what nobody closed, while there is still an interpreter.

    IMPORTANT: a thread of DuckDB may be letting go of a file of ours behind its query. Once the
    interpreter ends it may no longer call into Python, and the process would abort.
    """
    for connection in list(_open):
        connection.close()


def _keep_what_stays(connection: Any, *, keeps_bytes: bool) -> None:  # noqa: ANN401 - DuckDB's
    """Let later queries find in memory what was read of parts, and proven; a part never changes.

    IMPORTANT: other files do. DuckDB (2.0) keeps of one what of all, and takes one that was written
    again within a second, of the same size, for the one it knows.
    """
    # NOTE: DuckDB (2.0) would parse the footers of all files for each query.
    connection.execute("SET parquet_metadata_cache = true")
    for statement in _KEPT_BYTES if keeps_bytes else ():
        try:
            connection.execute(statement)
        except duckdb_here().CatalogException:
            # NOTE: DuckDB (1.4) keeps no bytes of such files.
            return


def open_parser(*, allow_external_access: bool) -> Any:  # noqa: ANN401 - a connection
    """Return a connection that has no tables, to tell what a statement is and names."""
    parser = duckdb_here().connect(config={**_OWN_WORDS, "threads": "1", **_NO_EXTENSIONS})
    if not allow_external_access:
        _close_to_the_outside(parser)
    return parser


def _close_to_the_outside(connection: Any) -> None:  # noqa: ANN401 - DuckDB's
    """Leave nothing open but parts: no other file, no network, no extension, and no setting."""
    for statement in _CLOSED:
        connection.execute(statement)


# A table is a stream, and never a variable of the program that asks.
_OWN_WORDS: Final = {"python_enable_replacements": "false"}


def _config(memory_limit: str) -> dict[str, str]:
    place = Path(gettempdir()) / f"shardlog-sql-{os.getpid()}-{secrets.token_hex(4)}"
    return {
        **_OWN_WORDS,
        "memory_limit": memory_limit,
        # What does not fit memory would else lie in the directory that the caller is in, under
        # names that are those of any other process there. DuckDB makes it, and takes it away.
        "temp_directory": str(place),
    }


def _file_system(files: PartFiles) -> object:
    try:
        from storage_core.sql.part_file_system import PartFileSystem  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise InvalidRequestError(_MISSING) from error
    return PartFileSystem(files)


def duckdb_here() -> Any:  # noqa: ANN401 - a module that may be missing
    """Return DuckDB, or tell how to have it."""
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise InvalidRequestError(_MISSING) from error
    return duckdb
