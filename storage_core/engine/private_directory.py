"""Where a reader's secondary instance keeps its own files: temporary, and deleted once it is dead.

A reader that is killed cannot clear up. Each holds the lock of its directory for as long as it
lives; whoever makes the next one removes those that nobody holds any more.
"""

import shutil
import tempfile
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from storage_core.errors import UnavailableError
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import taking_errors
from storage_core.platform.file_lock import DirectoryLock

_PREFIX: Final = "shardlog-reader-"
# A directory is older than that before it may be taken for an orphan: its maker locks it last.
_ORPHAN_AGE_S: Final = 60.0
_DELETED_AT_ONCE: Final = 64


class PrivateDirectory:
    """A directory of this reader's own; `remove` or the end of the process gives it back."""

    def __init__(self, clock: Clock) -> None:
        """Make it, and remove some of those whose readers died.

        Raises:
            UnavailableError: There is no temporary directory, or it is full or forbidden.
        """
        parent = _temporary_directory()
        with taking_errors(parent, "making a reader's temporary directory where TMPDIR says"):
            _delete_abandoned(parent, clock.now_ns() / 10**9)
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._lock = _locked(self.path)

    def remove(self) -> None:
        """Remove it with all in it; once that is done a call does nothing, nor does a fork's."""
        if self._lock.is_held:
            try:
                shutil.rmtree(self.path, ignore_errors=True)
            except OSError as error:
                # NOTE: where it is interrupted, it may close a descriptor twice and say that.
                raise error.__context__ or error from None
            self._lock.release()


def _temporary_directory() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        message = f"a reader needs a temporary directory; name one by TMPDIR: {error.strerror}"
        raise UnavailableError(message) from error


def _locked(path: Path) -> DirectoryLock:
    """Lock a new directory; remove it if it cannot be held."""
    try:
        lock = DirectoryLock.if_free(path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    if lock is None:
        message = "another reader took the new directory for an orphan; set the clock right"
        raise UnavailableError(message, path=path)
    return lock


def _delete_abandoned(parent: Path, now_s: float) -> None:
    for path in islice(parent.glob(f"{_PREFIX}*"), _DELETED_AT_ONCE):
        # Gone meanwhile, or another user's.
        with suppress(OSError):
            if now_s - path.stat().st_mtime < _ORPHAN_AGE_S:
                continue
            lock = DirectoryLock.if_free(path)
            if lock is not None:
                with lock:
                    shutil.rmtree(path, ignore_errors=True)
