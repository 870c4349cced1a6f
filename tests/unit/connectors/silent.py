"""A peer that accepts connections and never says a word."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent_peer() -> Iterator[str]:
    """Yield host:port of a listener that the kernel accepts for, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
