"""One process or thread at a time: an exclusive `flock` on a file, waited for and bounded.

The kernel lets go when the holder ends, however it ends. The file is never removed: whoever
locked a removed one would be alone with it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage_core import Environment, UnavailableError

_LOOK_EVERY_S: Final = 0.1


@contextmanager
def locked(path: Path, doing: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock.

    Raises:
        UnavailableError: Another held it all the time.
    """
    clock = Environment().clock
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = clock.monotonic_s() + timeout_s
        while not _has_locked(descriptor):
            if clock.monotonic_s() > deadline:
                message = f"{doing}: another process is at it since {timeout_s:.0f} s"
                raise UnavailableError(message, path=path)
            clock.sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(descriptor)


def _has_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
