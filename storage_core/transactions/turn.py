"""Whose turn it is to open shards that somebody holds open between two uses.

A writer may keep its shards open for a while, because opening costs more than a small commit.
Who needs them takes the turn, the lock of the staging directory, and keeps it while it waits;
who holds the shards sees that the turn is taken and lets go. The kernel gives the turn back
when its holder ends. It guards nothing: the shards' own locks do.
"""

from pathlib import Path

from storage_core.errors import ShardLockedError
from storage_core.ground.clock import Clock
from storage_core.ground.locks import DirectoryLock


def is_turn_taken(staging: Path) -> bool:
    """Tell whether somebody waits."""
    lock = DirectoryLock.if_free(staging)
    if lock is None:
        return True
    lock.release()
    return False


def take_turn(staging: Path, clock: Clock, wait_s: float) -> DirectoryLock:
    """Take the turn.

    Raises:
        ShardLockedError: Others waited for too long.
    """
    lock = DirectoryLock.within(staging, clock, wait_s)
    if lock is None:
        message = "others wait for the stream's shards already, for too long"
        raise ShardLockedError(message, path=staging)
    return lock
