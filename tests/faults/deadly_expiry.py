"""The child process that lets rows expire and kills itself at a call to its store or marker."""

import os
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from storage_core import Stream
from storage_core.engine import rocksdb
from tests.log.hooked_disk import HookedDisk

NAME: Final = "expiring"
NOW: Final = 472_222 * 3600
# So small that each batch goes to a segment, and a few make the next one begin.
_small_segments = partial(rocksdb.open_store, apart_bytes_min=1, segment_bytes=300)


@dataclass(frozen=True, slots=True)
class Death:
    """Where a process opens a stream, and before which call of an expiry it dies."""

    root: Path
    call: int
    has_segments: bool


class DeadlyDisk(HookedDisk):
    """Stores and markers that kill the process right before a call, counted from 1."""

    def __init__(self, *, has_segments: bool) -> None:
        super().__init__(_small_segments if has_segments else rocksdb.open_store)
        self.dies_before: int | None = None

    def reached(self, moment: str) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        """Die if it is the moment."""
        super().reached(moment)
        if moment.startswith("before ") and len(self.calls) + 1 == self.dies_before:
            os.kill(os.getpid(), signal.SIGKILL)


def expire_and_die(death: Death) -> None:
    """Let expire what is old, and die at a call of it, if there are so many."""
    disk = DeadlyDisk(has_segments=death.has_segments)
    with Stream.open(death.root, NAME, environment=disk.environment) as stream:
        disk.calls.clear()
        disk.dies_before = death.call
        stream.expire(NOW)
        disk.dies_before = None
