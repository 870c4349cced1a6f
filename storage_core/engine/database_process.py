"""The process that opened the first database, and so has RocksDB's threads."""

import os
from typing import Final

from storage_core.errors import InvalidRequestError

_opened_in: Final[list[int]] = []


def note_opening() -> None:
    """Remember this process if no database was opened before."""
    if not _opened_in:
        _opened_in.append(os.getpid())


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
