"""A store that may only be read, seen through a directory of links in which may be written.

rocksdict writes a file of its own beside a store at each opening, a reader's too. Where that is not
allowed, as on a read-only mount, the store is opened through a private directory that has a link to
each of its files. Whatever a writer of the same store makes there later gets a link before the
reader follows it.

Two kinds of files are copies, CURRENT and the manifest that it names: they say which other files
there are. As links they would tell a reader of files that have no link yet, which it would then
leave out until the writer makes others. A copy says what the store said before it was listed.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from storage_core.engine.left_config import CONFIG_FILE
from storage_core.platform.durable_file import reading_errors

_CURRENT: Final = "CURRENT"
_MANIFESTS: Final = "MANIFEST-"


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
            InvalidRequestError: This process may not read the store.
            UnavailableError: It cannot be read at present, or the links cannot be made.
            OSError: The directory cannot be made.
        """
        self._store = store.absolute()
        self.path = directory
        self._linked: set[str] = set()
        # The manifest that is copied, and how much of it.
        self._manifest = ""
        self._copied_bytes = 0
        directory.mkdir()
        self.follow()

    def follow(self) -> None:
        """Show the store as it is.

        1. See which manifest there is, and how long it is.
        2. Link what has come, and remove the links to what has gone: RocksDB opens the logs in
           their order, and one that it cannot open hides all that come after it.
        3. Copy the manifest up to where it ended in 1, so that it names no file without a link.

        Raises:
            InvalidRequestError: This process may not read the store.
            UnavailableError: It cannot be read at present, or a link cannot be made.
        """
        with reading_errors(self._store, "linking a store's files"):
            self._follow()

    def _follow(self) -> None:
        current = (self._store / _CURRENT).read_bytes()  # 1
        manifest = current.decode(errors="replace").strip()
        end = (self._store / manifest).stat().st_size
        self._link(os.listdir(self._store))  # noqa: PTH208 - no paths are needed  # 2
        if manifest != self._manifest:  # 3
            self._copied_bytes = 0
        self._copy_manifest(manifest, end)
        if manifest != self._manifest:
            draft = self.path / f"{_CURRENT}.draft"
            draft.write_bytes(current)
            draft.replace(self.path / _CURRENT)
            if self._manifest:
                (self.path / self._manifest).unlink(missing_ok=True)
            self._manifest = manifest

    def _link(self, names: Iterable[str]) -> None:
        listed = {
            name
            for name in names
            if name not in (CONFIG_FILE, _CURRENT) and not name.startswith(_MANIFESTS)
        }
        for name in self._linked - listed:
            (self.path / name).unlink(missing_ok=True)
        for name in listed - self._linked:
            (self.path / name).symlink_to(self._store / name)
            self._linked.add(name)
        self._linked &= listed

    def _copy_manifest(self, name: str, end: int) -> None:
        with (self._store / name).open("rb") as source, (self.path / name).open("ab") as copy:
            copy.truncate(self._copied_bytes)
            source.seek(self._copied_bytes)
            self._copied_bytes += copy.write(source.read(end - self._copied_bytes))
