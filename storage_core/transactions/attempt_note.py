"""What an attempt has staged, noted beside its rows: its name stands for them.

    staging/<name>/<attempt>/parts.json     {"shards": {"<shard>": [[file, start, size, …], …]}}

Who stages for others, as a server does, tells them the name alone. So nobody can publish rows that
were not staged here, nor those of another transaction, and a name that comes back is one word. The
note is the last file of an attempt: one that has it is whole.
"""

import re
from pathlib import Path
from typing import Any, Final

from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.platform.durable_file import encode_document, read_document, write_once
from storage_core.transactions.documents import decode_staged, encode_staged
from storage_core.transactions.manifest import Parts

_FILE: Final = "parts.json"
_NAME: Final = re.compile(r"[0-9a-f]{16}")


def checked_attempt(name: str) -> str:
    """Return a name that an attempt can have: no path, whatever a client sends.

    Raises:
        InvalidRequestError: It is none.
    """
    if _NAME.fullmatch(name) is None:
        message = f"{name[:40]!r} is no name of staged rows"
        raise InvalidRequestError(message)
    return name


def note_parts(attempt: Path, parts: Parts) -> None:
    """Note what an attempt has staged; durable on return."""
    write_once(attempt / _FILE, encode_document({"shards": encode_staged(parts)}))


def parts_of_attempt(directory: Path, attempt: str) -> Parts | None:
    """Return what was noted of an attempt at the transaction of a directory; None if nothing was.

    Raises:
        InvalidRequestError: It is no name that an attempt can have.
        CorruptionError: The note is damaged.
    """
    path = directory / checked_attempt(attempt) / _FILE
    try:
        document: dict[str, Any] = read_document(path)
    except FileNotFoundError:
        return None
    try:
        return decode_staged(document["shards"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the note of staged rows is damaged: {error}"
        raise CorruptionError(message, path=path) from error
