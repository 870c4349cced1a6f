"""A process told apart from any later one of the same number, and how it is ended.

A number alone is reused; a number and the time of its start are not. Signals go through a file
descriptor of the process, so that they cannot reach another one. Linux 5.3 or later.
"""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

STOP_MAX_S: Final = 15.0
KILL_MAX_S: Final = 15.0

_STATE_FIELD: Final = 0
_STARTED_FIELD: Final = 19
_ENDED_STATES: Final = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine, alive or gone.

    Attributes:
        pid: Its number.
        started: When it began, in the kernel's clock ticks since boot.
    """

    pid: int
    started: int

    @classmethod
    def find(cls, pid: int) -> Self | None:
        """Return the process that has this number, or None."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        # The program's name stands in parentheses and may hold anything, these too.
        fields = text.rpartition(")")[2].split()
        if fields[_STATE_FIELD] in _ENDED_STATES:
            return None
        return cls(pid, int(fields[_STARTED_FIELD]))

    @classmethod
    def current(cls) -> Self:
        """Return this process."""
        found = cls.find(os.getpid())
        assert found is not None, "this process runs"
        return found

    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        return Process.find(self.pid) == self

    def has_ended_within(self, timeout_s: float) -> bool:
        """Wait until it ends, at most so long; say whether it did."""
        with self._descriptor() as descriptor:
            if descriptor is None:
                return True
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            return bool(poller.poll(timeout_s * 1000))

    def send(self, number: signal.Signals) -> None:
        """Send a signal; one that is gone gets none."""
        with self._descriptor() as descriptor:
            if descriptor is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)

    def stop(self) -> None:
        """Ask it to end, and insist when it does not in time."""
        self.send(signal.SIGTERM)
        if not self.has_ended_within(STOP_MAX_S):
            self.kill()

    def kill(self) -> None:
        """End it at once; it is gone on return."""
        self.send(signal.SIGKILL)
        self.has_ended_within(KILL_MAX_S)

    @contextmanager
    def _descriptor(self) -> Iterator[int | None]:
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            # Looked at after the opening: from here on the number cannot be another's.
            yield descriptor if self.is_alive() else None
        finally:
            os.close(descriptor)
