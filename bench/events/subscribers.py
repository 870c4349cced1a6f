"""Delivery to 200 subscribers over HTTP, each with a condition of its own, beside a steady writer.

The server has a process of its own, the clients another: one thread stores 50 events a second, one
takes what all subscribers are sent. Each event has the moment at which its request went out.
"""

import json
import selectors
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bench.child import answer_of, child_process
from bench.events.stores import connected, request_of, send_command
from bench.measure import Contestant, Experiment, Measured, Row, latencies
from bench.serve.process import serve
from storage_core import SystemClock
from storage_core.roots import make_root

_SUBSCRIBERS: Final = 200
_EVENTS: Final = 250
_EVERY_S: Final = 0.02
_WAIT_S: Final = 120.0
_RECEIVED_AT_ONCE: Final = 262_144
_CLOCK: Final = SystemClock()
_DEFINE: Final = 'DEFINE reading FIELDS { number: "int", sent: "float" }'


@contextmanager
def _served(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    make_root(workspace)
    with child_process(serve, workspace, is_writable=True) as child:
        port = int(child.answer()["port"])
        with closing(connected(port)) as connection:
            send_command(connection, request_of(_DEFINE))
        yield {"subscribers": lambda: answer_of(_deliver, port)}


def _deliver(port: int) -> Measured:
    """Return how long events take from the request to each of the subscribers."""
    with ExitStack() as open_sockets, selectors.DefaultSelector() as selector:
        left: dict[socket.socket, bytes] = {}
        for number in range(_SUBSCRIBERS):
            connection = open_sockets.enter_context(closing(connected(port)))
            connection.sendall(_subscribing(number))
            selector.register(connection, selectors.EVENT_READ)
            left[connection] = b""
        # A subscriber that has caught up says so once.
        _take_lines(selector, left, b"event: caught_up", _SUBSCRIBERS)
        writer = threading.Thread(target=_write, args=(port,))
        writer.start()
        seconds = [
            now_s - float(json.loads(line.removeprefix(b"data: "))["sent"])
            for now_s, line in _take_lines(
                selector, left, b'data: {"context_id"', _SUBSCRIBERS * _EVENTS
            )
        ]
        writer.join()
    return {"rate": len(seconds) / (_EVENTS * _EVERY_S), **latencies(seconds)}


def _take_lines(
    selector: selectors.BaseSelector, left: dict[socket.socket, bytes], begin: bytes, count: int
) -> list[tuple[float, bytes]]:
    """Return so many lines that begin as said, each with the moment at which it came."""
    lines: list[tuple[float, bytes]] = []
    until_s = time.perf_counter() + _WAIT_S
    while len(lines) < count:
        assert time.perf_counter() < until_s, f"{len(lines)} of {count} came"
        for key, _ in selector.select(1.0):
            connection = key.fileobj
            assert isinstance(connection, socket.socket), "nothing else is waited for"
            received = connection.recv(_RECEIVED_AT_ONCE)
            assert received, "the server has ended the connection"
            now_s = time.perf_counter()
            *whole, left[connection] = (left[connection] + received).split(b"\n")
            lines += [(now_s, line) for line in whole if line.startswith(begin)]
    return lines


def _write(port: int) -> None:
    next_s = time.perf_counter()
    with closing(connected(port)) as connection:
        for number in range(_EVENTS):
            next_s += _EVERY_S
            _CLOCK.sleep(max(0.0, next_s - time.perf_counter()))
            payload = json.dumps({"number": number, "sent": time.perf_counter()})
            send_command(connection, request_of(f"STORE reading FOR a PAYLOAD {payload}"))


def _subscribing(number: int) -> bytes:
    command = quote(f"SUBSCRIBE reading WHERE number >= {-number}")
    return f"GET /subscribe?command={command} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


EVENT_SUBSCRIPTIONS: Final = Experiment(
    "event-subscriptions",
    (
        Row(
            "event-subscriptions/p99",
            "from STORE to each of 200 subscribers over HTTP, 50 events a second, p99, seconds",
            ("subscribers", "p99"),
            sense="at most",
            limit=0.1,
            wanted=0.03,
        ),
    ),
    _served,
    bytes_needed=2**28,
)
