"""How many bytes requests hold together until they are answered: bodies, lines and messages.

One that is small is not counted: of those there is one a connection. A large one is let in only
while there is room for it. A client that has sent nothing of its own for a while is cut where
another one finds no room.
"""

import threading
from typing import Final

from connectors.serve.connection import Connection
from connectors.serve.settings import Bounds
from storage_core import Clock

SMALL_BYTES: Final = 65_536


class BodyRoom:
    """Whose requests are held. Any thread."""

    def __init__(self, bounds: Bounds, clock: Clock) -> None:
        """Begin with none."""
        self._bounds = bounds
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[Connection, int] = {}

    @property
    def held_bytes(self) -> int:
        """How many bytes the large ones come to."""
        with self._lock:
            return sum(self._held.values())

    def take(self, connection: Connection, size: int) -> bool:
        """Let in so many bytes of a client in all; return whether there is room for them."""
        if size <= SMALL_BYTES:
            return True
        with self._lock:
            self._held.pop(connection, None)
            if sum(self._held.values()) + size <= self._bounds.bodies_bytes:
                self._held[connection] = size
                return True
            self._cut_stalled()
        return False

    def leave(self, connection: Connection) -> None:
        """Give back the room that a client has, if it has any."""
        # Most have none, and wait for nobody.
        if connection in self._held:
            with self._lock:
                self._held.pop(connection, None)

    def _cut_stalled(self) -> None:
        """Cut those that have sent nothing for too long."""
        limit_s = self._clock.monotonic_s() - self._bounds.stalled_s
        for connection in self._held:
            since_s = connection.stalled_since_s
            if since_s is not None and since_s < limit_s:
                connection.cut()
