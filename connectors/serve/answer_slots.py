"""Slots for answers with rows: how many are sent at once, and how many bytes they hold.

Whoever waits for a slot gets that of a client that has read nothing for a while, or too little
over its whole answer: its connection is cut. So clients that stall or dawdle, however many, cost
the others some seconds and no more. A large read holds its bytes before it gathers them, so that
many at once take no more memory than few.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from connectors.serve.connection import Connection
from connectors.serve.refusals import BusyError, limit_reached
from connectors.serve.settings import Bounds
from storage_core import Clock

_LOOK_EVERY_S: Final = 0.1
_ANSWERS: Final = "answers are being sent"


class AnswerSlots:
    """Who is answered with rows. Any thread."""

    def __init__(self, most: int, bounds: Bounds, clock: Clock, users: str = _ANSWERS) -> None:
        """Begin with `most` slots, all free; `users` are what has them, as an error says."""
        self._most = most
        self._bounds = bounds
        self._users = users
        self._clock = clock
        self._changed = threading.Condition()
        self._taken: set[Connection] = set()
        self._held = 0
        self._waiting = 0
        self.cut = 0

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return len(self._taken)

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows they hold."""
        return self._held

    @contextmanager
    def taking(self, connection: Connection) -> Iterator[None]:
        """Have a slot while an answer is made and sent.

        Raises:
            BusyError: None became free in time.
        """
        until_s = self._clock.monotonic_s() + self._bounds.queue_s
        with self._changed, self._one_more_waits():
            while len(self._taken) >= self._most:
                if self._clock.monotonic_s() >= until_s:
                    raise BusyError(limit_reached(f"{self._most} {self._users}"))
                self._cut_stalled()
                self._changed.wait(_LOOK_EVERY_S)
            self._taken.add(connection)
        try:
            yield
        finally:
            with self._changed:
                self._taken.discard(connection)
                self._changed.notify_all()

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Hold so many bytes of rows until they are sent.

        Raises:
            BusyError: Together with those of other answers they are too many.
        """
        with self._changed:
            if size and self._held and self._held + size > self._bounds.held_bytes:
                message = (
                    f"answers hold {self._held} bytes of rows; with {size} more they would be "
                    f"above {self._bounds.held_bytes}; try again, or use `scan`"
                )
                raise BusyError(message)
            self._held += size
        try:
            yield
        finally:
            with self._changed:
                self._held -= size

    @contextmanager
    def reserving(self) -> Iterator[Callable[[int], None]]:
        """Hold as many bytes as a read may gather, before it does; then as many as it has.

        Yields what is called with the bytes that it has collected.

        Raises:
            BusyError: They did not become free in time.
        """
        size = self._bounds.read_bytes
        until_s = self._clock.monotonic_s() + self._bounds.queue_s
        with self._changed, self._one_more_waits():
            while self._held and self._held + size > self._bounds.held_bytes:
                if self._clock.monotonic_s() >= until_s:
                    message = (
                        f"answers hold {self._held} bytes of rows, too many for one more that is "
                        f"large; {self._bounds.held_bytes} is the most; try again, or use `scan`"
                    )
                    raise BusyError(message)
                self._cut_stalled()
                self._changed.wait(_LOOK_EVERY_S)
            self._held += size

        def keep(collected: int) -> None:
            nonlocal size
            with self._changed:
                self._held += collected - size
                size = collected
                self._changed.notify_all()

        try:
            yield keep
        finally:
            keep(0)

    @contextmanager
    def _one_more_waits(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _cut_stalled(self) -> None:
        """Cut the client that has taken nothing for longest, if that is long enough; or a slow one.

        One for each who waits: of those that were cut, some may not have given their slot up yet.
        """
        if sum(connection.is_cut for connection in self._taken) >= self._waiting:
            return
        limit_s = self._clock.monotonic_s() - self._bounds.stalled_s
        # Its thread may set it to None at any time: each is read once.
        since = [(connection.stalled_since_s, connection) for connection in self._taken]
        stalled = [
            (since_s, connection)
            for since_s, connection in since
            if since_s is not None and since_s < limit_s and not connection.is_cut
        ]
        if stalled:
            self.cut += 1
            min(stalled, key=lambda pair: pair[0])[1].cut()
            return
        slow = next((each for each in self._taken if each.is_slow() and not each.is_cut), None)
        if slow is not None:
            self.cut += 1
            slow.cut()
