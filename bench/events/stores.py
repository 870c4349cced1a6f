"""STORE over HTTP: 16 clients, each event durable before it is answered, and lines by the thousand.

The server has a process of its own, the clients another. Each client stores one event a request and
waits for its answer; the other side is one client that sends 1,000 lines of STORE in a request.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.child import answer_of, child_process
from bench.measure import Contestant, Experiment, Measured, Row, latencies
from bench.serve.process import serve
from storage_core.roots import make_root

_CLIENTS: Final = 16
_EVENTS: Final = 250
_LINES: Final = 1_000
_REQUESTS: Final = 15
_WAIT_S: Final = 120.0
_CONTEXTS: Final = 1_000
# The length of a body, up to where it begins.
_LENGTH: Final = re.compile(rb"Content-Length: (\d+)\r\n(?:[^\r]+\r\n)*\r\n", re.IGNORECASE)
_DEFINE: Final = """DEFINE purchase FIELDS {
    status: ["new", "paid", "sent"], amount: "int", price: "float", note: "string", ok: "bool"
}"""


@contextmanager
def _served(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    make_root(workspace)
    with child_process(serve, workspace, is_writable=True) as child:
        port = int(child.answer()["port"])
        with closing(connected(port)) as connection:
            send_command(connection, request_of(_DEFINE))
        yield {
            "clients": lambda: answer_of(_clients, port),
            "lines": lambda: answer_of(_lines, port),
        }


def _clients(port: int) -> Measured:
    """Store by clients that each wait for their answer; all begin at once."""
    seconds: list[float] = []
    begins = threading.Barrier(_CLIENTS + 1)

    def run(client: int) -> None:
        numbers = range(client * _EVENTS, (client + 1) * _EVENTS)
        requests = [request_of(_store(number)) for number in numbers]
        with closing(connected(port)) as connection:
            send_command(connection, request_of("PING"))
            begins.wait(_WAIT_S)
            for request in requests:
                start = time.perf_counter()
                send_command(connection, request)
                seconds.append(time.perf_counter() - start)

    threads = [threading.Thread(target=partial(run, client)) for client in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    begins.wait(_WAIT_S)
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    assert len(seconds) == _CLIENTS * _EVENTS, "a client has failed"
    return {"rate": len(seconds) / elapsed, **latencies(seconds)}


def _lines(port: int) -> Measured:
    """Store lines, one request after the other; the first is not counted."""
    requests = [
        request_of("\n".join(_store(first + number) for number in range(_LINES)))
        for first in range(0, (_REQUESTS + 1) * _LINES, _LINES)
    ]
    with closing(connected(port)) as connection:
        send_command(connection, requests[0])
        start = time.perf_counter()
        for request in requests[1:]:
            send_command(connection, request)
        elapsed = time.perf_counter() - start
    return {"rate": _LINES * _REQUESTS / elapsed}


def _store(number: int) -> str:
    payload = {
        "status": ("new", "paid", "sent")[number % 3],
        "amount": number,
        "price": number / 7,
        "note": f"note {number % 97}",
        "ok": number % 2 == 0,
    }
    return f"STORE purchase FOR customer-{number % _CONTEXTS} PAYLOAD {json.dumps(payload)}"


def request_of(text: str) -> bytes:
    """Return the bytes of a request, so that a client has little to do but to wait."""
    body = text.encode()
    head = f"POST /command HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def connected(port: int) -> socket.socket:
    """Return a connection to the server."""
    return socket.create_connection(("127.0.0.1", port), _WAIT_S)


def send_command(connection: socket.socket, request: bytes) -> None:
    """Send a request, which must go well, and take its answer."""
    connection.sendall(request)
    received = b""
    while not (head := _LENGTH.search(received)) or len(received) < head.end() + int(head[1]):
        piece = connection.recv(65_536)
        assert piece, "the server has ended the connection"
        received += piece
    assert received.startswith(b"HTTP/1.1 200"), received


EVENT_STORES: Final = Experiment(
    "event-stores",
    (
        Row(
            "event-stores/clients",
            "durable STOREs of 16 clients over HTTP, one event a request, a second",
            ("clients", "rate"),
            limit=5_000,
            wanted=20_000,
        ),
        Row(
            "event-stores/clients-p99",
            "how long such a STORE takes, p99, seconds",
            ("clients", "p99"),
            sense="at most",
        ),
        Row(
            "event-stores/lines",
            "durable STOREs of 1,000 lines in a request, a second",
            ("lines", "rate"),
            limit=50_000,
        ),
    ),
    _served,
    bytes_needed=2**29,
)
