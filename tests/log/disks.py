"""Disks that a test holds by the reins: they count, fail with a real kind of error, or stall.

The store behind them is a real one; only what is asked of it first passes through here.
"""

import threading
from collections.abc import Callable
from typing import Self

from tests.log.hooked_disk import HookedDisk, full

# Ends a hang; nothing that a test claims takes as long.
STALL_MAX_S = 60.0


class ReinedDisk(HookedDisk):
    """Stores that count their syncs, fail while told to, and stall until let go."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.failing: set[str] = set()
        """Which calls fail: `write`, `sync`, `stalled sync`, or the `third write` from now on."""
        self._writes_left = 2
        self.stalled = threading.Event()
        self._open_gate = threading.Event()
        self._open_gate.set()

    def reset(self) -> None:
        """Count from zero."""
        self.syncs = 0

    def stall(self) -> None:
        """Let the next sync wait until `go_on`."""
        self.stalled.clear()
        self._open_gate.clear()

    def go_on(self) -> None:
        """Let a waiting sync pass."""
        self._open_gate.set()

    def reached(self, moment: str) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        """Count a call that comes; fail or stall as told."""
        super().reached(moment)
        call = moment.removeprefix("before ")
        if call == "write" and "third write" in self.failing:
            self._writes_left -= 1
            call = "third write" if self._writes_left < 0 else call
        if call in self.failing:
            raise full(call)
        if call == "sync":
            self.syncs += 1
            self.stalled.set()
            assert self._open_gate.wait(STALL_MAX_S), "nobody let the disk go on"
            if "stalled sync" in self.failing:
                raise full(call)


class BesideThread:
    """A call running beside the test; leaving the block waits for it and raises what it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(STALL_MAX_S)
        assert not self._thread.is_alive(), "the call beside the test never ended"
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - raised again by the test's own thread
            self._error = error
