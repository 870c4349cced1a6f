"""What the worker's loop does every so often, beside fetching and commit rounds.

The worker has one list of these, which it ticks from the first to the last after each fetch. A tick
that is not due costs a comparison. Belongs to the worker's thread; times are monotonic.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Periodic:
    """A call every so often, due at once at first.

    Attributes:
        every_s: The least time between the begins of two calls.
        call: What is called, with the time.
        due_s: When it is due.
    """

    every_s: float
    call: Callable[[float], object]
    due_s: float = float("-inf")

    def tick(self, now_s: float) -> None:
        """Call if it is due."""
        if now_s >= self.due_s:
            self.due_s = now_s + self.every_s
            self.call(now_s)

    def hasten(self) -> None:
        """Have the next tick call."""
        self.due_s = float("-inf")
