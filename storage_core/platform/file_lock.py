"""Locks between processes: an exclusive `flock` on a directory.

A lock file can be deleted, and whoever locks the next one of its name is alone with it; a
directory in use stays. The kernel lets go when the holder has ended, however it ended: what it
forked closes its copy of the descriptor. A frozen holder keeps the lock.

An exception out of a signal handler may come before a lock is entered, or at the begin of its
`__exit__`. So a lock ends with its object too, and nothing of Python runs then: a finaliser in
Python would swallow such an exception at the end of any lock.

A directory may be moved away and another made in its place between its opening and the lock. So
what is locked is compared with what the path names, and tried again where they differ.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from storage_core.errors import UnavailableError
from storage_core.platform import fork_guard
from storage_core.platform.clock import Clock
from storage_core.platform.descriptor import OwnedDescriptor, opened

_TRIES_MAX: Final = 100
_LOOK_EVERY_S: Final = 0.005


class DirectoryLock:
    """A held lock; leaving it as a context, `release`, or the end of object or process frees it."""

    def __init__(self, descriptor: OwnedDescriptor) -> None:
        """Take over an open directory that is to be locked; use `if_free` or `within`."""
        self._owner: OwnedDescriptor | None = descriptor
        fork_guard.register(self)

    @classmethod
    def if_free(cls, path: Path, *, is_shared: bool = False) -> Self | None:
        """Lock the directory at a path; None if somebody else holds it.

        Args:
            path: The directory.
            is_shared: Others may do so too, as long as nobody holds it alone.

        Raises:
            OSError: There is no such directory, or it cannot be locked.
            UnavailableError: Each time another directory was in its place once it was locked.
        """
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        for _ in range(_TRIES_MAX):
            owner = opened(path, os.O_RDONLY | os.O_DIRECTORY)
            lock = cls(owner)
            try:
                fcntl.flock(owner, kind | fcntl.LOCK_NB)
                # IMPORTANT: once it is locked; until then it may be moved away.
                if os.path.samestat(os.fstat(owner.fileno()), path.stat()):
                    return lock
            except BlockingIOError:
                lock._close()
                return None
            except BaseException:
                lock._close()
                raise
            lock._close()
        message = "another process keeps replacing the directory"
        raise UnavailableError(message, path=path)

    @classmethod
    def within(cls, path: Path, clock: Clock, wait_s: float) -> Self | None:
        """Do as `if_free`, and wait for whoever holds it; None if that took too long."""
        deadline_s = clock.monotonic_s() + wait_s
        while (lock := cls.if_free(path)) is None and clock.monotonic_s() < deadline_s:
            clock.sleep(_LOOK_EVERY_S)
        return lock

    @property
    def is_held(self) -> bool:
        """Tell whether it was neither released nor left to the parent of this fork."""
        return self._owner is not None

    def release(self) -> None:
        """Let go; a second call does nothing."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        try:
            # A child that is being forked may have the descriptor still.
            with suppress(OSError):
                fcntl.flock(owner, fcntl.LOCK_UN)
        finally:
            owner.close()

    def leave_to_parent(self, _process: int) -> None:
        """Close this fork's descriptor, so that the lock ends with the process that took it."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _close(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.close()
