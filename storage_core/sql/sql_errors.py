"""What DuckDB's errors are to who asked: a kind, and one line that says what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.sql.engine import duckdb_here

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
_FORBIDDEN: Final = re.compile("^Permission Error|the configuration has been locked$")
_OPENED_BY: Final = (
    "; SQL reads streams alone: --allow-external-access, or allow_external_access of connect(), "
    "lets it reach other files and take settings"
)
_OF_BYTES: Final = re.compile(r"\bBLOB\b")
_HAS_DECODE: Final = "; bytes (BLOB) are made a text by decode(), as in decode(payload)"
_NO_TEXT: Final = "Failure in decode:"
_HAS_TRY: Final = "; TRY(decode(payload)) is null where bytes are no text"
# What follows the first line, and helps.
_CANDIDATES: Final = re.compile(r"^(Candidate bindings|Did you mean)\b[\s:]*(.+)", re.MULTILINE)
_NO_FUNCTION: Final = "No function matches"
_LINE: Final = re.compile(r"^LINE (\d+):", re.MULTILINE)


class PartUnreadError(InvalidRequestError):
    """DuckDB could not read a file that a query needs: a damaged part, or one of the caller's."""


@contextmanager
def translated() -> Iterator[None]:
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
    is_unread = _NOT_READ in message.lower() or message.lower().startswith(_UNREAD)
    if is_unread or type(error) in (duckdb_here().Error, UnicodeDecodeError):
        return PartUnreadError(one_line(message))
    return InvalidRequestError(one_line(message))


def one_line(message: str) -> str:
    """Return what an error of DuckDB's says in a line, with what it says would help."""
    first, *_ = message.splitlines() or [""]
    if message.startswith(_TOO_LARGE):
        return first + (_DISK_BOUND if _OF_DISK in message else _MEMORY_BOUND)
    if _FORBIDDEN.search(first):
        return first + _OPENED_BY
    line = _LINE.search(message)
    where = f", in line {line[1]}" if line is not None and line[1] != "1" else ""
    candidates = _CANDIDATES.search(message)
    helps = f"; did you mean {candidates[2].rstrip(' ?')}?" if candidates is not None else ""
    if 'near "primary"' in message:
        helps = '; the column is written "primary", in quotes: SQL has that word itself'
    elif _NO_FUNCTION in first and _OF_BYTES.search(first):
        helps = _HAS_DECODE
    elif _NO_TEXT in first:
        first, helps = first.rstrip(" ."), _HAS_TRY
    return (first.rstrip("!") if helps else first) + where + helps
