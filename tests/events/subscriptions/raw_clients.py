"""The vocabulary of clients that are sockets alone, which need not read what they are sent.

with asking(served, REQUESTS["http"], b"caught_up"): …     one that has read up to some bytes
"""

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.log.serve.served import Served

_HERE: Final = Path(__file__).parents[2] / "log" / "serve"
TLS: Final[Mapping[str, Any]] = {
    "tls_certificate": _HERE / "certificate.pem",
    "tls_key": _HERE / "key.pem",
}
_COMMAND: Final = b"SUBSCRIBE order FROM START"
# What a subscriber sends, by its door.
REQUESTS: Final[Mapping[str, bytes]] = {
    "http": b"GET /subscribe?command=%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
    % _COMMAND.replace(b" ", b"%20"),
    "websocket": b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    + bytes([0x81, 0x80 | len(_COMMAND), 0, 0, 0, 0])
    + _COMMAND,
}


@contextmanager
def asking(
    served: Served, request: bytes, end: bytes, received_bytes: int = 65_536
) -> Iterator[None]:
    """A client that has asked, and has read what came up to some bytes."""
    with served.connected(received_bytes) as plain:
        sock: socket.socket = plain
        if served.server.url.startswith("https"):
            context = ssl.create_default_context(cafile=TLS["tls_certificate"])
            context.check_hostname = False
            sock = context.wrap_socket(plain)
        with sock:
            sock.sendall(request)
            received = b""
            while end not in received:
                piece = sock.recv(received_bytes)
                assert piece, received
                received += piece
            yield
