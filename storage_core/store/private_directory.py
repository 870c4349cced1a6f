"""Where a reader's secondary instance keeps its own files: temporary, and swept when it dies.

A reader that is killed cannot clear up. Each holds `flock` on its directory for as long as it
lives; whoever makes the next one removes those that nobody holds any more.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

from storage_core.errors import UnavailableError
from storage_core.ground import forking
from storage_core.ground.clock import Clock
from storage_core.ground.durable_file import file_errors

_PREFIX: Final = "shardlog-reader-"
# A directory is older than that before it may be taken for an orphan: its maker locks it last.
_ORPHAN_AGE_S: Final = 60.0
_SWEPT_AT_ONCE: Final = 64


class PrivateDirectory:
    """A directory of this reader's own; `remove` or the end of the process gives it back."""

    def __init__(self, clock: Clock) -> None:
        """Make it, and remove some of those whose readers died.

        Raises:
            UnavailableError: There is no temporary directory, or it is full or forbidden.
        """
        parent = _temporary_directory()
        with file_errors(parent, "making a reader's temporary directory where TMPDIR says"):
            _sweep(parent, clock.now_ns() / 10**9)
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._descriptor: int | None = _locked(self.path)
        forking.register(self)

    def remove(self) -> None:
        """Remove it with all in it; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(descriptor)

    def leave_to_parent(self, _process: int) -> None:
        """Close this fork's descriptor, so that the directory is an orphan with its reader."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _temporary_directory() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        message = f"a reader needs a temporary directory; name one by TMPDIR: {error.strerror}"
        raise UnavailableError(message) from error


def _locked(path: Path) -> int:
    """Return a descriptor that holds a new directory; remove it if it cannot be held."""
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, path, ignore_errors=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        undo.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        undo.pop_all()
    return descriptor


def _sweep(parent: Path, now_s: float) -> None:
    for path in islice(parent.glob(f"{_PREFIX}*"), _SWEPT_AT_ONCE):
        try:
            if now_s - path.stat().st_mtime < _ORPHAN_AGE_S:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            # Gone meanwhile, or another user's.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
