"""One writer a shard: an exclusive `flock` on the shard's directory itself.

A lock file can be deleted, and then two RocksDB writers destroy each other's MANIFEST; a
directory in use cannot be. The kernel lets go when the owner has ended, however it ended, since
what it forked has closed its copy of the descriptor; a frozen owner keeps the lock. `owner.json`
tells who holds it; it is information only.

A directory may be moved away and another made in its place between its opening and the lock. So
what is locked is compared with what the path names, and tried again where they differ.
"""

import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from storage_core.errors import CorruptionError, ShardLockedError, UnavailableError
from storage_core.ground import forking

OWNER_FILE: Final = "owner.json"
_TRIES_MAX: Final = 100


def lock_or_none(path: Path) -> int | None:
    """Return a descriptor that holds the lock of the directory at a path; None if others do.

    Raises:
        UnavailableError: Each time another directory was in its place once it was locked.
    """
    for _ in range(_TRIES_MAX):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # IMPORTANT: once it is locked; until then it may be moved away.
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    message = "the directory is replaced again and again; find out by whom"
    raise UnavailableError(message, path=path)


class DirectoryLock:
    """A held lock; `release` or the end of the process gives it back."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over an open descriptor that holds the lock."""
        self.path = path
        self._descriptor: int | None = descriptor
        forking.register(self)

    @classmethod
    def acquire(
        cls, path: Path, *, started_at_ms: int, stream: str, shard: int, purpose: str = ""
    ) -> "DirectoryLock":
        """Lock a directory at once or not at all; a purpose is told to others meanwhile.

        Raises:
            ShardLockedError: Another writer has it; the message says who.
            CorruptionError: The directory is not there.
            UnavailableError: It was replaced by another again and again.
        """
        try:
            descriptor = lock_or_none(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            message = "the shard's directory is missing"
            raise CorruptionError(message, stream=stream, shard=shard, path=path) from error
        if descriptor is None:
            message = f"another writer holds the shard: {describe_owner(path)}"
            raise ShardLockedError(message, stream=stream, shard=shard)
        try:
            host = socket.gethostname()
            owner = {"pid": os.getpid(), "host": host, "started_at_ms": started_at_ms}
            if purpose:
                owner["purpose"] = purpose
            with suppress(OSError):
                (path / OWNER_FILE).write_text(json.dumps(owner))
            return cls(path, descriptor)
        except BaseException:
            # An interruption; nobody else would ever close it.
            os.close(descriptor)
            raise

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            (self.path / OWNER_FILE).unlink(missing_ok=True)
        # A child that is being forked may have the descriptor still.
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        descriptor, self._descriptor = self._descriptor, None
        os.close(descriptor)

    def leave_to_parent(self, _process: int) -> None:
        """Close this fork's descriptor, so that the lock ends with the process that took it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def describe_owner(path: Path) -> str:
    """Say who wrote `owner.json`, as far as it can be read."""
    try:
        owner = json.loads((path / OWNER_FILE).read_text())
        purpose = f", for {owner['purpose']}" if "purpose" in owner else ""
        return f"process {owner['pid']} on {owner['host']}{purpose}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process (owner.json cannot be read)"
