"""A store that may only be read, seen through a directory of links in which may be written.

rocksdict writes a file of its own beside a store at each opening, a reader's too. Where that is not
allowed, as on a read-only mount, the store is opened through a private directory that has a link to
each of its files. Whatever a writer of the same store makes there later gets a link before the
reader follows it.
"""

import os
from contextlib import suppress
from pathlib import Path

from storage_core.engine.left_config import CONFIG_FILE


def may_write_config(store: Path) -> bool:
    """Tell whether rocksdict may write its file beside a store, or the store is not there."""
    config = store / CONFIG_FILE
    path = config if os.access(config, os.F_OK) else store
    return not os.access(path, os.F_OK) or os.access(path, os.W_OK)


class StoreMirror:
    """Links to the files of a store. One thread."""

    def __init__(self, store: Path, directory: Path) -> None:
        """Make the directory, with a link to each file there is.

        Raises:
            OSError: The store cannot be listed, or the links cannot be made.
        """
        self._store = store.absolute()
        self.path = directory
        directory.mkdir()
        self.follow()

    def follow(self) -> None:
        """Link what has come; links to what has gone stay, and are as gone as that.

        Raises:
            OSError: The store cannot be listed, or a link cannot be made.
        """
        for name in os.listdir(self._store):  # noqa: PTH208 - no paths are needed
            if name != CONFIG_FILE:
                with suppress(FileExistsError):
                    (self.path / name).symlink_to(self._store / name)
