"""Who excludes whom: what looks after a whole shard does so alone.

Expiry and verify of one shard exclude each other, and so will all that changes or proves what
is stored already. Appends, commits and reads go on beside them.

The order of locks, of which each is waited for in bounded time (write/guard.py):

    upkeep lock, then append lock, then commit lock

Whoever holds the append or the commit lock never asks for the upkeep lock. It is of this
process, since a shard's only writer is.
"""

from collections.abc import Callable
from typing import TypeVar

from storage_core.write.shard import Shard

_Answer = TypeVar("_Answer")


def alone(shard: Shard, do: Callable[[], _Answer]) -> _Answer:
    """Do something to a shard while nothing else looks after it.

    Raises:
        UnavailableError: Something else did for too long.
    """
    lock = shard.guard.upkeep_lock
    lock.take()
    try:
        return do()
    finally:
        lock.release()
