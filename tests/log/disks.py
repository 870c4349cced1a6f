"""Disks that a test holds by the reins: they count, fail with a real kind of error, or stall.

The store behind them is a real one; only what is asked of it first passes through here.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from storage_core import Environment, UnavailableError
from storage_core.store import rocks
from storage_core.store.key_value import Batch, KeyValueStore, Recovery, StoreView
from storage_core.testing import ManualClock

STALL_MAX_S = 10.0


class ReinedDisk:
    """Stores that count their syncs, fail while told to, and stall until let go."""

    def __init__(self) -> None:
        self.clock = ManualClock()
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

    @property
    def environment(self) -> Environment:
        """Return an environment with this disk and a clock turned by hand."""
        return Environment(clock=self.clock, open_store=self.open_store)

    def open_store(self, path: Path, recovery: Recovery) -> KeyValueStore:
        """Open a store that asks this disk first."""
        return _ReinedStore(self, rocks.open_store(path, recovery))

    def stall(self) -> None:
        """Let the next sync wait until `go_on`."""
        self.stalled.clear()
        self._open_gate.clear()

    def go_on(self) -> None:
        """Let a waiting sync pass."""
        self._open_gate.set()

    def asked(self, call: str) -> None:
        """Count a call; fail or stall as told."""
        if call == "write" and "third write" in self.failing:
            self._writes_left -= 1
            call = "third write" if self._writes_left < 0 else call
        if call in self.failing:
            message = f"IO error: no space left ({call})"
            raise UnavailableError(message)
        if call == "sync":
            self.syncs += 1
            self.stalled.set()
            assert self._open_gate.wait(STALL_MAX_S), "nobody let the disk go on"
            if "stalled sync" in self.failing:
                message = "IO error: input/output error (sync)"
                raise UnavailableError(message)


class _ReinedStore:
    def __init__(self, disk: ReinedDisk, store: KeyValueStore) -> None:
        self._disk = disk
        self._store = store

    def write(self, batch: Batch) -> None:
        self._disk.asked("write")
        self._store.write(batch)

    def sync(self) -> None:
        self._disk.asked("sync")
        self._store.sync()

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return self._store.get_many(keys)

    def view(self) -> StoreView:
        return self._store.view()

    def flush(self) -> None:
        self._store.flush()

    def close(self) -> None:
        self._store.close()


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
