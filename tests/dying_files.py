"""Files of a root whose process dies at a chosen call to the system.

    files = DyingFiles(root, die)
    with files.armed(3):         the third call from here on does not happen: `die` is called
        stream.seal()

Counted are the calls that change files below the root or make them durable: opening one for
writing, fsync of a file or of a directory, rename, link, unlink, mkdir. A process that dies at the
fsync of a file has written half of it. Once one call has died every later one does.
"""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final
from unittest.mock import patch

_CALLS: Final = ("fsync", "rename", "replace", "link", "unlink", "mkdir", "open")
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class DyingFiles:
    """Counts the calls to the files of a root."""

    def __init__(self, root: Path, die: Callable[[], object]) -> None:
        """Take the root, and what raises the death."""
        self._root = str(root)
        self._die = die
        self._left: int | None = None

    @contextmanager
    def armed(self, call: int) -> Iterator[None]:
        """Let the n-th call die, counted from 1; 0 for none."""
        if not call:
            yield
            return
        self._left = call
        counted: Any = {name: self._counted(name) for name in _CALLS}
        usual = io.open
        opening = patch.object(io, "open", partial(self._open, usual))
        with patch.multiple(os, **counted), opening:
            yield

    def _counted(self, name: str) -> Callable[..., Any]:
        usual = getattr(os, name)

        def call(place: Any, *arguments: Any, **named: Any) -> Any:
            is_reading = name == "open" and not (arguments and arguments[0] & _WRITING)
            if not is_reading:
                self._count(place, is_sync=name == "fsync")
            return usual(place, *arguments, **named)

        return call

    def _open(self, usual: Any, place: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if set(mode) & set("wxa+"):
            self._count(place, is_sync=False)
        return usual(place, mode, *arguments, **named)

    def _count(self, place: Any, *, is_sync: bool) -> None:
        path = Path(f"/proc/self/fd/{place}").readlink() if isinstance(place, int) else place
        if self._left is None or not str(path).startswith(self._root):
            return
        self._left -= 1
        if self._left > 0:
            return
        if is_sync and self._left == 0 and S_ISREG(os.fstat(place).st_mode):
            os.truncate(place, os.fstat(place).st_size // 2)
        self._die()
