"""DuckDB as SQL over streams has it: how it is opened, what it may take, what its errors are."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

from storage_core.cold.moment import A_PART_HAS_GONE, PartGoneError
from storage_core.errors import InvalidRequestError, ShardlogError

# The least that a caller may let it take: it fails at anything with much less.
MEMORY_BYTES_LEAST: Final = 32 * 2**20
_MISSING: Final = "SQL needs DuckDB: pip install 'shardlog[sql]'"
# NOTE: DuckDB (2.0) says the second where it has not begun to read.
_GONE: Final = ("no such file", "no files found that match the pattern")
# NOTE: so it begins (2.0) where bytes of a file make no sense to it, whosever file that is.
_UNREAD: Final = ("invalid error:", "io error:", "internal error:", "serialization error:")
_NOT_READ: Final = "failed to read file"
_INTERRUPTED: Final = "Query interrupted"
_TOO_LARGE: Final = "Out of Memory Error"
_OF_DISK: Final = "max_temp_directory_size"
_MEMORY_BOUND: Final = (
    "; the query needs more memory than it may take: give it more by --memory-mib-max, or "
    "memory_bytes_max of connect()"
)
_DISK_BOUND: Final = (
    "; what does not fit memory takes more disk than it may, half of what was free: give more "
    "memory by --memory-mib-max, or let TMPDIR name a directory on a larger disk"
)
# Beside a worker there is more that needs memory; DuckDB (2.0) takes four fifths unless it is told.
_MEMORY_SHARE: Final = "25%"
_IS_MUCH: Final = ("GiB", "TiB")


class PartUnreadError(InvalidRequestError):
    """DuckDB could not read a file that a query needs: a damaged part, or one of the caller's."""


def opened(memory_bytes_max: int | None) -> Any:  # noqa: ANN401 - a connection
    """Return a connection to a DuckDB of its own, that is bounded.

    Args:
        memory_bytes_max: What it may hold in memory; if None a quarter of what there is, and no
            less than a GiB.

    Raises:
        InvalidRequestError: DuckDB is not installed, or could do nothing with so little.
    """
    if memory_bytes_max is not None and memory_bytes_max < MEMORY_BYTES_LEAST:
        message = f"memory_bytes_max is {memory_bytes_max}; the least is {MEMORY_BYTES_LEAST}"
        raise InvalidRequestError(message)
    bound = _MEMORY_SHARE if memory_bytes_max is None else f"{memory_bytes_max}B"
    connection = duckdb_here().connect(config=_config(bound))
    try:
        (told_bound,) = connection.execute("SELECT current_setting('memory_limit')").fetchone()
        if memory_bytes_max is None and not told_bound.endswith(_IS_MUCH):
            connection.execute("SET memory_limit = '1GiB'")
        # NOTE: DuckDB (2.0) would let it be all that is free but a tenth. It forgets what it was
        # told of this beside the directory, at its opening.
        free = shutil.disk_usage(gettempdir()).free
        connection.execute(f"SET max_temp_directory_size = '{free // 2}B'")
        # NOTE: DuckDB (2.0) would parse the footers of all files for each query.
        connection.execute("SET parquet_metadata_cache = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _config(memory_limit: str) -> dict[str, str]:
    place = Path(gettempdir()) / f"shardlog-sql-{os.getpid()}-{secrets.token_hex(4)}"
    return {
        "memory_limit": memory_limit,
        # A table is a stream, and never a variable of the program that asks.
        "python_enable_replacements": "false",
        # What does not fit memory would else lie in the directory that the caller is in, under
        # names that are those of any other process there. DuckDB makes it, and takes it away.
        "temp_directory": str(place),
    }


@contextmanager
def telling() -> Iterator[None]:
    """Give what DuckDB refuses a kind, and what interrupted it back to who waits for that."""
    duckdb = duckdb_here()
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise refusal(error) from error
    except RuntimeError as error:
        # NOTE: DuckDB (2.0) takes Ctrl-C for its own, and tells it so.
        if str(error) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from error


def refusal(error: Exception) -> ShardlogError:
    """Return what an error of DuckDB's is to a caller."""
    message = str(error)
    if any(words in message.lower() for words in _GONE):
        return PartGoneError(A_PART_HAS_GONE)
    is_unread = _NOT_READ in message.lower() or message.lower().startswith(_UNREAD)
    if is_unread or type(error) in (duckdb_here().Error, UnicodeDecodeError):
        return PartUnreadError(told(message))
    return InvalidRequestError(told(message))


def told(message: str) -> str:
    """Return what an error of DuckDB's says in a line."""
    first, *_ = message.splitlines() or [""]
    if message.startswith(_TOO_LARGE):
        return first + (_DISK_BOUND if _OF_DISK in message else _MEMORY_BOUND)
    if 'near "primary"' in message:
        return f'{first}; the column is written "primary", in quotes: SQL has that word itself'
    return first


def duckdb_here() -> Any:  # noqa: ANN401 - a module that may be missing
    """Return DuckDB, or tell how to have it."""
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise InvalidRequestError(_MISSING) from error
    return duckdb
