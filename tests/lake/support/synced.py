"""Which files and directories were synced: what a loss of power would leave of them.

with syncs() as synced: ...    the paths that fsync was called for so far
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch


@contextmanager
def syncs() -> Iterator[set[Path]]:
    """Note each file and directory that is synced."""
    synced: set[Path] = set()
    usual = os.fsync

    def fsync(descriptor: int) -> None:
        usual(descriptor)
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())

    with patch.object(os, "fsync", fsync):
        yield synced
