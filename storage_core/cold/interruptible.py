"""A thread that waits for DuckDB, so that an interrupt ends the query.

While DuckDB (2.0) looks for the next rows nothing in this process hears a signal: a query that
finds none for an hour would go on for it. So a thread of its own waits for them, and who asked
waits for that.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Interruptible:
    """Calls what takes long, one call at a time."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        """Call nothing yet.

        Args:
            interrupt: Ends what is under way, from another thread.
        """
        self._interrupt = interrupt
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shardlog-sql")

    def call(self, what: Callable[[], T]) -> T:
        """Return what a call returns; end it where this thread is interrupted."""
        waiting = self._thread.submit(what)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            self._interrupt()
            raise

    def close(self) -> None:
        """End the thread, behind what it is at."""
        self._thread.shutdown()
