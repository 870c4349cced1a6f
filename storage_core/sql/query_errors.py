"""Errors of queries: DuckDB's errors as the log's, in one line with a hint; damaged parts."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from storage_core.errors import (
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
)
from storage_core.sql.access.path_streams import RootStreams
from storage_core.sql.engine import import_duckdb
from storage_core.sql.part_groups import damaged_part

# NOTE: how messages of DuckDB (2.0) begin when it cannot decode a file, ours or the caller's.
_UNREAD: Final = ("invalid error:", "io error:", "internal error:", "serialization error:")
_READ_FAILED: Final = "failed to read file"
# NOTE: DuckDB (2.0) makes this of a Ctrl-C, and of one that comes while it calls a file of ours an
# error with the name of the exception, mostly behind its traceback.
_INTERRUPTED: Final = "Query interrupted"
_INTERRUPTED_IN_FILE: Final = re.compile(
    r"(Traceback .*^)?KeyboardInterrupt\b", re.DOTALL | re.MULTILINE
)
_OUT_OF_MEMORY: Final = "Out of Memory Error"
_DISK_LIMIT_NAME: Final = "max_temp_directory_size"
_MEMORY_HINT: Final = (
    "; the query exceeds its memory limit: raise --memory-mib-max, or memory_bytes_max of connect()"
)
_DISK_HINT: Final = (
    "; the query spills more than its disk limit, half of the free space: raise --memory-mib-max, "
    "or set TMPDIR to a directory on a larger disk"
)
_NOT_ALLOWED: Final = re.compile("^Permission Error|the configuration has been locked$")
_ACCESS_HINT: Final = (
    "; SQL reads streams only: use --allow-external-access, or allow_external_access of connect(), "
    "to read other files and change settings"
)
_BLOB: Final = re.compile(r"\bBLOB\b")
_DECODE_HINT: Final = "; use decode() to make bytes (BLOB) a string, as in decode(payload)"
_DECODE_FAILED: Final = "Failure in decode:"
# `state` is the only column of a stream with this type.
_IS_NO_STATE: Final = re.compile(r"Could not convert string .* to UINT8")
_STATE_HINT: Final = "; state is a number of the log's own; a field of that name is value_state"
_TRY_HINT: Final = "; TRY(decode(payload)) is null where bytes are not UTF-8"
# Hints after the first line.
_CANDIDATES: Final = re.compile(r"^(Candidate bindings|Did you mean)\b[\s:]*(.+)", re.MULTILINE)
_NO_FUNCTION: Final = "No function matches"
_LINE: Final = re.compile(r"^LINE (\d+):", re.MULTILINE)


class PartUnreadError(InvalidRequestError):
    """DuckDB could not read a file of a query: a damaged part, or a file of the caller's."""


@contextmanager
def translated() -> Iterator[None]:
    """Translate DuckDB's errors, and its interrupt into KeyboardInterrupt."""
    duckdb = import_duckdb()
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError, RuntimeError) as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        if isinstance(error, RuntimeError):
            raise
        raise as_shardlog_error(error) from error


def is_interrupt(error: Exception) -> bool:
    """Tell whether an error is Ctrl-C, as DuckDB or Arrow hands it on."""
    text = str(error)
    return text == _INTERRUPTED or _INTERRUPTED_IN_FILE.match(text) is not None


def as_shardlog_error(error: Exception) -> ShardlogError:
    """Return the translation of an error of DuckDB's."""
    message = str(error)
    is_unread = _READ_FAILED in message.lower() or message.lower().startswith(_UNREAD)
    if is_unread or type(error) in (import_duckdb().Error, UnicodeDecodeError):
        return PartUnreadError(one_line(message))
    return InvalidRequestError(one_line(message))


def one_line(message: str) -> str:
    """Return a message of DuckDB's in one line, with a hint."""
    first, *_ = message.splitlines() or [""]
    if message.startswith(_OUT_OF_MEMORY):
        return first + (_DISK_HINT if _DISK_LIMIT_NAME in message else _MEMORY_HINT)
    if _NOT_ALLOWED.search(first):
        return first + _ACCESS_HINT
    line = _LINE.search(message)
    position = f", in line {line[1]}" if line is not None and line[1] != "1" else ""
    candidates = _CANDIDATES.search(message)
    hint = f"; did you mean {candidates[2].rstrip(' ?')}?" if candidates is not None else ""
    if 'near "primary"' in message:
        hint = '; write the column as "primary", in quotes: it is a keyword of SQL'
    elif _IS_NO_STATE.search(first):
        hint = _STATE_HINT
    elif _NO_FUNCTION in first and _BLOB.search(first):
        hint = _DECODE_HINT
    elif _DECODE_FAILED in first:
        first, hint = first.rstrip(" ."), _TRY_HINT
    return (first.rstrip("!") if hint else first) + position + hint


def missing_part_error(root: RootStreams, streams: Iterable[str]) -> ShardlogError:
    """Return the error for parts that were not found: one is missing, or they kept changing."""
    for name in streams:
        for readable in root.parts(name):
            if not root.has(readable):
                return damaged_part(name, readable.part, "a part is missing")
    return UnavailableError("parts were superseded faster than they could be read")


def verify_part_digests(root: RootStreams, streams: Iterable[str]) -> None:
    """Compare the file of each part with its digest, which reads it whole.

    Raises:
        CorruptionError: A file differs from its digest.
    """
    for name in streams:
        for readable in root.parts(name):
            text = root.difference(readable)
            # A file that was deleted meanwhile has expired or was superseded.
            if text and root.has(readable):
                raise damaged_part(name, readable.part, f"a part {text}")
