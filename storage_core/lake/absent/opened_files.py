"""Files of a store that are read again and again, by range: each is opened once.

Opening one asks the store for its size. A client of its own for each read costs six times as much.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final

from storage_core.errors import ShardlogError
from storage_core.lake.file_store import FileStore, OpenedFile

_OPENED_MAX: Final = 256


class OpenedFiles:
    """The files that were read last. Any thread."""

    def __init__(self, files: FileStore) -> None:
        """Open none yet."""
        self.files: Final = files
        self._opened: OrderedDict[str, OpenedFile] = OrderedDict()
        self._lock = Lock()

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return bytes of a file; fewer at its end.

        Raises:
            LakeFileGoneError: There is none.
            UnavailableError: The store refuses.
        """
        with self._lock:
            opened = self._opened.get(path)
            if opened is not None:
                self._opened.move_to_end(path)
        if opened is None:
            opened = self.files.opened(path)
        try:
            data = opened.read(offset, size)
        except ShardlogError:
            with self._lock:
                self._opened.pop(path, None)
            raise
        with self._lock:
            self._opened[path] = opened
            while len(self._opened) > _OPENED_MAX:
                self._opened.popitem(last=False)
        return data
