"""A thread that waits for DuckDB, so that an interrupt ends the query.

While DuckDB (2.0) looks for the next rows nothing in this process hears a signal: a query that
finds none for an hour would go on for it. So a thread of its own waits for them, and who asked
waits for that, and may tell meanwhile how far it is.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

T = TypeVar("T")
# Between two looks at how far it is, and between two interrupts.
_LOOK_EVERY_S: Final = 0.1


class Interruptible:
    """Calls what takes long, one call at a time."""

    def __init__(self, interrupt: Callable[[], None], look: Callable[[], None] | None) -> None:
        """Call nothing yet.

        Args:
            interrupt: Ends what is under way, from another thread.
            look: Called some times a second meanwhile, by the thread that waits.
        """
        self._interrupt = interrupt
        self._look = look
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shardlog-sql")

    def call(self, what: Callable[[], T]) -> T:
        """Return what a call returns; end it where this thread is interrupted.

        It has ended by then: an interrupt that comes before the call has begun ends nothing, so
        there are more of them.
        """
        waiting = self._thread.submit(what)
        try:
            while self._look is not None and not _is_done(waiting):
                self._look()
            return waiting.result()
        except KeyboardInterrupt:
            self._interrupt()
            while not _is_done(waiting):
                self._interrupt()
            raise

    def close(self) -> None:
        """End the thread, behind what it is at."""
        self._thread.shutdown()


def _is_done(waiting: Future[T]) -> bool:
    return bool(wait([waiting], _LOOK_EVERY_S).done)
