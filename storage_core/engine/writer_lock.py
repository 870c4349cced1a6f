"""One writer a shard: a lock on the shard's directory itself, and who holds it.

Two RocksDB writers would destroy each other's MANIFEST. `owner.json` tells who holds the lock;
it is information only.

IMPORTANT: it does not end with its object, as other locks do: what works on the store in the
background may outlive a stream that was dropped unclosed.
"""

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

from storage_core.errors import CorruptionError, ShardLockedError, UnavailableError
from storage_core.platform import fork_guard
from storage_core.platform.clock import Clock
from storage_core.platform.file_lock import DirectoryLock

OWNER_FILE: Final = "owner.json"
# Whoever finds out who holds a shard keeps its lock from others for less than this, even on a
# crowded machine.
_LOOK_MAX_S: Final = 1.0


class WriterLock(DirectoryLock):
    """A held shard."""

    @classmethod
    def acquire(
        cls, path: Path, clock: Clock, *, stream: str, shard: int, purpose: str = ""
    ) -> Self:
        """Lock a shard's directory now or not at all; a purpose is told to others meanwhile.

        Raises:
            ShardLockedError: Another writer has it; the message says who.
            CorruptionError: The directory is not there.
            UnavailableError: It was replaced by another again and again.
        """
        try:
            lock = cls.if_free(path)
            if lock is None and _is_only_looked_at(path):
                lock = cls.within(path, clock, _LOOK_MAX_S)
        except (FileNotFoundError, NotADirectoryError) as error:
            message = "the shard's directory is missing"
            raise CorruptionError(message, stream=stream, shard=shard, path=path) from error
        if lock is None:
            message = f"another writer holds the shard: {describe_owner(path)}"
            raise ShardLockedError(message, stream=stream, shard=shard)
        try:
            host, started_at_ms = socket.gethostname(), clock.now_ns() // 10**6
            _held().add(lock)
            owner = {"pid": os.getpid(), "host": host, "started_at_ms": started_at_ms}
            if purpose:
                owner["purpose"] = purpose
            with suppress(OSError):
                (path / OWNER_FILE).write_text(json.dumps(owner))
        except BaseException:
            # An interruption; nobody else would ever let go of it.
            lock.release()
            raise
        return lock

    def release(self) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        """Let go; a second call does nothing, nor does a fork's."""
        if self._owner is not None:
            # By the descriptor: a dropped stream's directory lies elsewhere meanwhile.
            with suppress(OSError):
                os.unlink(OWNER_FILE, dir_fd=self._owner.fileno())
        super().release()
        _held().discard(self)


@cache
def _held() -> set[WriterLock]:
    """Return the locks of this process, which nobody else has to remember."""
    held: set[WriterLock] = set()
    fork_guard.keep_for_ever(held)
    return held


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """The process that holds a shard.

    Attributes:
        pid: Its process id.
        host: Its host's name.
        since_ms: When it took the shard.
        purpose: What for, where that is no usual writing.
    """

    pid: int
    host: str
    since_ms: int
    purpose: str = ""

    def __str__(self) -> str:  # type: ignore[explicit-override]  # needs Python 3.12
        """Return it as messages name it."""
        purpose = f", for {self.purpose}" if self.purpose else ""
        return f"process {self.pid} on {self.host}{purpose}"


def current_owner(path: Path) -> ShardOwner | None:
    """Return the process that holds a shard's directory; None while nobody does.

    A file that a killed process left behind is told from one in force by the lock.
    """
    owner = _read_owner(path)
    if owner is None:
        return None
    try:
        # IMPORTANT: shared, or each of two who look would take the other for the owner.
        free = DirectoryLock.if_free(path, is_shared=True)
    except (OSError, UnavailableError):
        return None
    if free is None:
        return owner
    free.release()
    return None


def _is_only_looked_at(path: Path) -> bool:
    """Tell whether a lock that was refused is held by nobody who writes."""
    looking = DirectoryLock.if_free(path, is_shared=True)
    if looking is not None:
        looking.release()
    return looking is not None


def describe_owner(path: Path) -> str:
    """Say who wrote `owner.json`, as far as it can be read."""
    owner = _read_owner(path)
    return "an unknown process (owner.json cannot be read)" if owner is None else str(owner)


def _read_owner(path: Path) -> ShardOwner | None:
    try:
        owner = json.loads((path / OWNER_FILE).read_text())
        return ShardOwner(
            int(owner["pid"]),
            str(owner["host"]),
            int(owner["started_at_ms"]),
            str(owner.get("purpose", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
