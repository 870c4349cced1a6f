"""A process that works for another one gives way to it: where that waits for a processor, it rests.

A niceness alone does not do that. It says how processors are shared out, and a thread of the owner
that wakes waits a few milliseconds all the same for one that is nicer; while the nicest get next to
nothing of a machine that is busy with other things, and what holds a lock of upkeep would hold it
for minutes. So this one looks at how long the owner's threads have waited, and rests for twice as
long, but never for more than three times what it has worked since.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_core.platform.clock import Clock, SystemClock

# A look takes 10 to 15 µs for each thread of the owner, who may have a thousand. There are two to a
# step, which together take a twentieth of the work at most.
_LOOK_EVERY_S: Final = 0.01
_LOOK_SHARE: Final = 40.0
_FOR_WAITED: Final = 2.0
_FOR_WORKED: Final = 3.0
_NS_A_S: Final = 1_000_000_000


class GivingWay:
    """Rests as another process has to wait. One thread."""

    def __init__(
        self,
        process: int,
        clock: Clock | None = None,
        worked_s: Callable[[], float] = time.process_time,
    ) -> None:
        """Begin to count.

        Args:
            process: Whose threads go first.
            clock: Rests.
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
        self._look_s = self._worked - before

    def step(self) -> None:
        """Rest, if the other has waited since the last look, and that was not just now."""
        worked = self._worked_s() - self._worked
        if worked < max(_LOOK_EVERY_S, _LOOK_SHARE * self._look_s):
            return
        self._clock.sleep(rest_s(waited_s(self._process) - self._waited, worked))
        self.begin()


def rest_s(waited: float, worked: float) -> float:
    """Return for how long to rest, by what the other has waited and what was worked."""
    return max(0.0, min(_FOR_WAITED * waited, _FOR_WORKED * worked))


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
