"""Whether the server beside a worker answers: asked over its own address, as a client would.

Whatever comes back in time is an answer, a refusal too. Only silence is none: that of a process
that stands still, or whose threads all do.
"""

import socket
import ssl
from typing import Final

from connectors.settings.operations_settings import join_address

_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where it is asked instead


def answers(address: tuple[str, int], within_s: float, *, has_tls: bool) -> bool:
    """Tell whether a server answers, each step within a time."""
    host, port = _EVERYWHERE.get(address[0], address[0]), address[1]
    request = f"GET /health/live HTTP/1.0\r\nHost: {join_address(host, port)}\r\n\r\n"
    try:
        with socket.create_connection((host, port), within_s) as connection:
            if not has_tls:
                return _is_answered(connection, request)
            with _context().wrap_socket(connection) as encrypted:
                return _is_answered(encrypted, request)
    except TimeoutError:
        return False
    except OSError:
        # It was closed, or this process has no descriptor left.
        return True


def _is_answered(connection: socket.socket, request: str) -> bool:
    connection.sendall(request.encode())
    connection.recv(1)
    return True


def _context() -> ssl.SSLContext:
    # Whose it is is known: the worker listens itself.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
