"""Whom a file that is made in a root is for: all whom the root is for, whoever makes it.

Commands may run as root and workers as somebody else.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path


def share(made: Path, root: Path, mode: int) -> None:
    """Let something new be for whom a root is: as many as its mode says, and of its owner.

    Args:
        made: A file or a directory that was made.
        root: The root.
        mode: What of the root's mode it gets.
    """
    with suppress(OSError):
        of_root = root.stat()
        made.chmod(stat.S_IMODE(of_root.st_mode) & mode)
        if os.geteuid() == 0:
            os.chown(made, of_root.st_uid, of_root.st_gid)
