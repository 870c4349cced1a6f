"""Time, passed in wherever it matters, so that tests turn it by hand.

Wall time stamps blocks and judges rows that come from the future; monotonic time bounds
waits. This is the only file of the package that asks the operating system for either.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What the log needs of time. Any thread may call any method."""

    def now_ns(self) -> int:
        """Return wall time in nanoseconds since the epoch."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never run backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now_ns(self) -> int:
        """Return wall time in nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic_s(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        time.sleep(seconds)
