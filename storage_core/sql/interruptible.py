"""Calls on a thread of their own, so that Ctrl-C interrupts a query of DuckDB's.

While DuckDB (2.0) searches for the next rows, Python handles no signal: a query without rows for an
hour would run on. So a thread makes the call, and the caller waits for it. Meanwhile it can poll
progress, or whether anybody still wants the rows.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

T = TypeVar("T")
# Between two polls, and between two interrupts.
_POLL_EVERY_S: Final = 0.1


class Interruptible:
    """Runs one call at a time on a thread of its own."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        """Start the thread, without a call.

        Args:
            interrupt: Interrupts the running call, from another thread.
        """
        self._interrupt = interrupt
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shardlog-sql")
        # IMPORTANT: before there is a call: a Ctrl-C while its thread starts would leave it behind.
        self._thread.submit(int).result()

    def call(self, function: Callable[[], T], poll: Callable[[], None] | None = None) -> T:
        """Return the result of a call; interrupt it when this thread is interrupted.

        The interrupt is repeated until the call ends, as one before the call has begun is lost.

        Args:
            function: What is called.
            poll: Called some times a second by the waiting thread; what it raises ends the call,
                too. None for nothing.
        """
        future: Future[T] | None = None
        try:
            future = self._thread.submit(function)
            # In slices: a Ctrl-C just before a wait is heard of behind it.
            while not _is_done(future):
                if poll is not None:
                    poll()
            return future.result()
        except BaseException:
            if future is None or not future.done():
                # Ctrl-C may have come before `submit` returned. Behind the call the thread is free.
                behind = self._thread.submit(int)
                self._interrupt()
                while not _is_done(behind):
                    self._interrupt()
            raise

    def close(self) -> None:
        """End the thread after its current call."""
        self._thread.shutdown()


def _is_done(future: Future[Any]) -> bool:
    return bool(wait([future], _POLL_EVERY_S).done)
