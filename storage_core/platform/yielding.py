"""Yielding: a helper process sleeps while its owner's threads wait for a processor.

A niceness alone is not enough: a thread of the owner that wakes still waits some milliseconds for
a nicer one; and on a busy machine the nicest threads get next to nothing, and would hold a
maintenance lock for minutes. So the helper measures how long the owner's threads have waited, and
sleeps for twice as long, but never for more than three times what it has worked since.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_core.platform.clock import Clock, SystemClock

# A check takes 10 to 15 µs for each thread of the owner, which may have a thousand. There are two
# a step, which together take at most 5 % of the time.
_CHECK_EVERY_S: Final = 0.01
_CHECK_COSTS: Final = 40.0
_SLEEP_PER_WAITED: Final = 2.0
_SLEEP_PER_WORKED_MAX: Final = 3.0
_NS_A_S: Final = 1_000_000_000


class Yielding:
    """Sleeps while another process waits for a processor. One thread."""

    def __init__(
        self,
        process: int,
        clock: Clock | None = None,
        worked_s: Callable[[], float] = time.process_time,
    ) -> None:
        """Begin to count.

        Args:
            process: Whose threads go first.
            clock: Sleeps.
            worked_s: Tells how long this process has worked.
        """
        self._process = process
        self._clock = clock or SystemClock()
        self._worked_s = worked_s
        self.begin()

    def begin(self) -> None:
        """Count from here on: what was waited before had other reasons."""
        before = self._worked_s()
        self._waited = waited_s(self._process)
        self._worked = self._worked_s()
        self._check_s = self._worked - before

    def step(self) -> None:
        """Sleep if the other has waited since the last check, and that is some time ago."""
        worked = self._worked_s() - self._worked
        if worked < max(_CHECK_EVERY_S, _CHECK_COSTS * self._check_s):
            return
        self._clock.sleep(sleep_s(waited_s(self._process) - self._waited, worked))
        self.begin()


def sleep_s(waited: float, worked: float) -> float:
    """Return how long to sleep, by what the other has waited and what was worked."""
    return max(0.0, min(_SLEEP_PER_WAITED * waited, _SLEEP_PER_WORKED_MAX * worked))


def waited_s(process: int) -> float:
    """Return for how long the threads of a process have waited for a processor, all together.

    Nothing where the system does not say so. Less than before where threads have ended.
    """
    waited = 0
    try:
        for thread in Path(f"/proc/{process}/task").iterdir():
            waited += _waited_ns(thread / "schedstat")
    except OSError:
        # It has ended, or this system has no such directory.
        return 0.0
    return waited / _NS_A_S


def _waited_ns(statistics: Path) -> int:
    try:
        return int(statistics.read_bytes().split()[1])
    except (OSError, IndexError):
        # The thread has ended, or nobody counts.
        return 0
