"""The directory that holds the streams: root.json, made once, gives it a random id.

A copy of a whole root keeps the id, so whoever writes both the id and a shard's lineage into
a place outside can tell a copy from the original.
"""

import os
import re
import secrets
import stat
from contextlib import suppress
from errno import ELOOP, ENOENT, ENOTDIR
from os import PathLike
from pathlib import Path
from typing import Final

from storage_core.catalog.document_format import check_format, format_field
from storage_core.catalog.origin import is_stream_name
from storage_core.engine.stores import refuse_if_not_installed
from storage_core.errors import InvalidRequestError
from storage_core.platform.durable_file import (
    encode_document,
    read_document,
    reading_errors,
    write_once,
)

STREAM_FILE: Final = "stream.json"
# Where streams lie that were dropped. No stream has a tilde in its name.
DROPPED_DIRECTORY: Final = "~dropped"
_ROOT_FILE: Final = "root.json"
# Addresses of servers, also where a path was made of them: `shardlog:/a:8085`, `a:8085,b`.
_LIKE_SERVERS: Final = re.compile(r"(?i)(^|/)shardlogs?:(/|$)|:\d{1,5}(?:[,+][^/]*)?$")
_SERVER_HINT: Final = (
    "; a server is named as shardlog://HOST:PORT, and not every command can read from one"
)
# What the system says of other files and directories, and of links to nowhere.
_NO_STREAM: Final = (ENOENT, ENOTDIR, ELOOP)


def root_id(root: str | PathLike[str]) -> str:
    """Return the id of a root.

    Raises:
        InvalidRequestError: It is not a root.
        UnsupportedFormatError: It was made by another version of shardlog.
        CorruptionError: Its file is damaged.
    """
    path = Path(root)
    check_root(path)
    with reading_errors(path, "reading the root"):
        return str(read_root(path)["root_id"])


def list_streams(root: str | PathLike[str]) -> list[str]:
    """Return the names of the streams under a root, sorted.

    Raises:
        InvalidRequestError: It is not a root.
        UnsupportedFormatError: It was made by another version of shardlog.
        CorruptionError: Its file is damaged.
        UnavailableError: The disk does not tell.
    """
    path = Path(root)
    root_id(path)
    with reading_errors(path, "listing streams"):
        names = {directory.name for directory in path.iterdir() if _has_stream(directory)}
    return sorted(names - {DROPPED_DIRECTORY})


def _has_stream(directory: Path) -> bool:
    """Tell whether a stream is there, or may be where this process may not look.

    Whoever opens it is told so; to leave it out would be short in silence.
    """
    try:
        (directory / STREAM_FILE).stat()
    except PermissionError:
        return is_stream_name(directory.name)
    except OSError as error:
        if error.errno in _NO_STREAM:
            return False
        raise
    return True


def is_reserved(name: str) -> bool:
    """Tell whether a name belongs to a file that a root has beside its streams, drafts included."""
    return name == _ROOT_FILE or name.startswith(f"{_ROOT_FILE}.")


def check_root(root: Path) -> None:
    """Refuse a path that no file system can hold, and all of them where there are no stores.

    Raises:
        InvalidRequestError: It is no path, or RocksDB is not installed.
    """
    refuse_if_not_installed()
    if "\0" in str(root):
        message = f"bad root {str(root)!r}: a path holds no NUL"
        raise InvalidRequestError(message)


def make_root_file(root: Path) -> None:
    """Give a directory its id, if it has none."""
    if not (root / _ROOT_FILE).exists():
        fields = {**format_field("root"), "root_id": secrets.token_hex(16)}
        write_once(root / _ROOT_FILE, encode_document(fields))


def read_root(root: Path) -> dict[str, object]:
    """Return what root.json says.

    Raises:
        InvalidRequestError: There is none.
        UnsupportedFormatError: Another version of shardlog made it.
    """
    try:
        document = read_document(root / _ROOT_FILE)
    except (FileNotFoundError, NotADirectoryError) as error:
        reason = "it has no root.json" if root.is_dir() else "there is no such directory"
        hint = _SERVER_HINT if _LIKE_SERVERS.search(str(root)) else ""
        message = f"not a shardlog root: {reason}{hint}"
        raise InvalidRequestError(message, path=root) from error
    check_format(document, "root", root / _ROOT_FILE)
    return document


def share_with_root(made: Path, root: Path, mode: int) -> None:
    """Let something new be for whom a root is: as many as its mode says, and of its owner.

    Commands may run as root, and workers as somebody else.

    Args:
        made: A file or a directory that was made below the root.
        root: The root.
        mode: What of the root's mode it gets.
    """
    with suppress(OSError):
        of_root = root.stat()
        made.chmod(stat.S_IMODE(of_root.st_mode) & mode)
        if os.geteuid() == 0:
            os.chown(made, of_root.st_uid, of_root.st_gid)
