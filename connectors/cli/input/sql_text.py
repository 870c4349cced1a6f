"""Reads the query of `shardlog sql` from the command line, a file or standard input."""

import sys
from pathlib import Path
from typing import BinaryIO, Final

from storage_core import InvalidRequestError

_STANDARD_INPUT: Final = "-"
# No query that somebody wrote is larger.
_BYTES_MAX: Final = 16 * 2**20


def query_text(query: str | None, file: str | None) -> str:
    """Return the query.

    Args:
        query: The argument; - for standard input, as without it where something is piped there.
        file: The file that has it; - for standard input.

    Raises:
        InvalidRequestError: There is no query, or two, or it cannot be read.
    """
    if query is not None and file is not None:
        message = "QUERY and --file exclude each other"
        raise InvalidRequestError(message)
    if file is not None and file != _STANDARD_INPUT:
        return _of_file(Path(file))
    if query is not None and query != _STANDARD_INPUT:
        return query
    if query is None and file is None and sys.stdin.isatty():
        message = "no query: give QUERY, or --file FILE, or pipe it to standard input"
        raise InvalidRequestError(message)
    return _read(sys.stdin.buffer, "standard input")


def _of_file(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return _read(opened, "--file")
    except OSError as error:
        message = f"--file: {error.strerror}"
        raise InvalidRequestError(message, path=path) from error


def _read(source: BinaryIO, name: str) -> str:
    data = source.read(_BYTES_MAX + 1)
    if len(data) > _BYTES_MAX:
        message = f"{name}: a query has at most {_BYTES_MAX} bytes"
        raise InvalidRequestError(message)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{name}: the query is not UTF-8, at byte {error.start}"
        raise InvalidRequestError(message) from error
    if not text.strip():
        message = f"{name}: the query is empty"
        raise InvalidRequestError(message)
    return text
