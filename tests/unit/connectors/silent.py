"""Peers that accept connections and say nothing, or what is never whole."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread

from typing_extensions import override

PATIENT = 30.0
_QUESTION_BYTES_MAX = 65_536
_DRIP_EVERY_S = 0.02
# So long that whoever waits for the end is found out, and not for ever.
_DRIPS_MAX = 700


@contextmanager
def silent_peer() -> Iterator[str]:
    """Yield host:port of a listener that the kernel accepts for, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def dripping_peer(first: bytes, drip: bytes | None = b" ") -> Iterator[str]:
    """Yield host:port of a listener that answers so, then a little now and then.

    Args:
        first: What a question is answered with at once.
        drip: What comes behind it, again and again; None for the end of the connection.
    """
    is_over = Event()

    class Handler(BaseRequestHandler):
        @override
        def handle(self) -> None:
            with suppress(OSError):
                self.request.recv(_QUESTION_BYTES_MAX)
                self.request.sendall(first)
                for _ in range(_DRIPS_MAX if drip is not None else 0):
                    if is_over.wait(_DRIP_EVERY_S):
                        return
                    self.request.sendall(drip)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            is_over.set()
            server.shutdown()
            thread.join(PATIENT)
