"""Calls on a thread of their own, so that Ctrl-C interrupts a query of DuckDB's.

While DuckDB (2.0) searches for the next rows, Python handles no signal: a query without rows for an
hour would run on. So a thread makes the call, and the caller waits for it. Meanwhile it can poll
progress, or whether anybody still wants the rows.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

T = TypeVar("T")
# Between two polls, and between two interrupts.
_POLL_EVERY_S: Final = 0.1


class Interruptible:
    """Runs one call at a time on a thread of its own."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        """Start without a call.

        Args:
            interrupt: Interrupts the running call, from another thread.
        """
        self._interrupt = interrupt
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shardlog-sql")

    def call(self, function: Callable[[], T], poll: Callable[[], None] | None = None) -> T:
        """Return the result of a call; interrupt it when this thread is interrupted.

        The interrupt is repeated until the call ends, as one before the call has begun is lost.

        Args:
            function: What is called.
            poll: Called some times a second by the waiting thread; what it raises ends the call,
                too. None for nothing.
        """
        future = self._thread.submit(function)
        try:
            while poll is not None and not _is_done(future):
                poll()
            return future.result()
        except BaseException:
            if not future.done():
                self._interrupt()
            while not _is_done(future):
                self._interrupt()
            raise

    def close(self) -> None:
        """End the thread after its current call."""
        self._thread.shutdown()


def _is_done(future: Future[T]) -> bool:
    return bool(wait([future], _POLL_EVERY_S).done)
