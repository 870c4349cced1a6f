"""Transactions that are made durable: each in a thread of its own, whoever waits for it.

A large one takes longer than a client waits for an answer, and an answer may be lost. So a call
waits for some seconds, and is told that the transaction is on its way; the same call again waits
for the same one, and finds it made once it is. Any thread may call.
"""

import threading
from collections.abc import Callable, Hashable
from typing import Final

import typer

from connectors.serve.refusals import BusyError
from connectors.serve.settings import Bounds
from storage_core import Clock, ShardlogError

_FAILED: Final = "the server failed: {}; its standard error has more"


class _Landing:
    """One transaction on its way."""

    def __init__(self) -> None:
        self.has_ended = threading.Event()
        self.late = 0
        self.error: ShardlogError | None = None


class Landings:
    """The transactions on their way."""

    def __init__(self, bounds: Bounds, clock: Clock) -> None:
        """Begin with none."""
        self._bounds = bounds
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, _Landing] = {}

    def __len__(self) -> int:
        """Return how many are on their way."""
        return len(self._under_way)

    def land(self, key: Hashable, work: Callable[[], int], wait_s: float) -> int | None:
        """Do some work unless it is being done; return what it returned, None if it goes on.

        Args:
            key: What tells the work from all other.
            work: The work.
            wait_s: How long the work may wait for others, before it does anything.

        Raises:
            BusyError: As much is being done as may be.
            ShardlogError: The work's.
        """
        with self._lock:
            landing = self._under_way.get(key)
            if landing is None:
                if len(self._under_way) >= self._bounds.landings:
                    message = (
                        f"{self._bounds.landings} transactions are being made durable, as many as "
                        "may be; try again"
                    )
                    raise BusyError(message)
                landing = self._under_way[key] = _Landing()
                thread = threading.Thread(
                    target=self._run, args=(key, landing, work), name="shardlog-land", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:
                    del self._under_way[key]
                    message = "the system gives no thread for one more transaction; try again"
                    raise BusyError(message) from error
        if not landing.has_ended.wait(wait_s + self._bounds.landing_s):
            return None
        if landing.error is not None:
            raise landing.error
        return landing.late

    def close(self, wait_s: float) -> None:
        """Wait for what is on its way; what is not done then, is when the stream is opened next."""
        until_s = self._clock.monotonic_s() + wait_s
        with self._lock:
            remaining = list(self._under_way.values())
        for landing in remaining:
            landing.has_ended.wait(max(0.0, until_s - self._clock.monotonic_s()))

    def _run(self, key: Hashable, landing: _Landing, work: Callable[[], int]) -> None:
        try:
            landing.late = work()
        except ShardlogError as error:
            landing.error = error
        except Exception as error:  # noqa: BLE001 - the outermost of its thread: who waits is told
            typer.echo(f"shardlog: a transaction failed: {error!r}", err=True)
            landing.error = ShardlogError(_FAILED.format(type(error).__name__))
        finally:
            with self._lock:
                del self._under_way[key]
            landing.has_ended.set()
