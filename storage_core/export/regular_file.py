"""Opens files of an export only if they are regular files: an export may come from anybody.

Reading a pipe would block forever, a device has side effects, and a link may lead anywhere.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from storage_core.errors import CorruptionError

_FLAGS: Final = os.O_NONBLOCK | os.O_NOFOLLOW
_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
}


def refuse_other_file(path: Path) -> None:
    """Refuse a path that exists and is not a regular file.

    Raises:
        CorruptionError: It is a pipe, a device, a link or the like.
    """
    try:
        _refuse(path, os.lstat(path).st_mode)
    except FileNotFoundError:
        return


def opened_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        CorruptionError: It is a pipe, a device, a link or the like.
        OSError: It does not exist, or cannot be opened.
    """
    _refuse(path, os.lstat(path).st_mode)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _FLAGS))  # noqa: SIM115 - Path has no opener; the caller closes it
    try:
        # It may have been replaced since.
        _refuse(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def _refuse(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        message = f"it is {kind}; an export has regular files only"
        raise CorruptionError(message, path=path)
