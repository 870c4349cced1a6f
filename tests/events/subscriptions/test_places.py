"""Who gets a place where connections and subscriptions are bounded, and who is to leave."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from connectors.serve.connection import Connection
from connectors.serve.settings import Bounds
from storage_core import SystemClock
from tests.events.front_ends.doors import commanding, posted
from tests.events.front_ends.storing import connected, peer_of, request_of
from tests.log.serve.served import ANSWER_MAX_S, Served
from tests.waiting import await_that

SUBSCRIBERS = 8
SUBSCRIBE = b"GET /subscribe?command=SUBSCRIBE%20order HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CAUGHT_UP = b"event: caught_up\n"


def test_subscribers_that_come_again_at_once_have_the_places_of_those_that_went(
    tmp_path: Path,
) -> None:
    with commanding(tmp_path, connections=SUBSCRIBERS + 2, subscriptions=SUBSCRIBERS) as served:
        assert posted(served, 'DEFINE order FIELDS { amount: "int" }')[0] == 200
        for _ in range(3):
            with subscribers(served) as socks:
                for sock in socks:
                    assert CAUGHT_UP in received_up_to(sock, CAUGHT_UP)


def test_connection_whose_request_has_begun_is_not_idle(tmp_path: Path) -> None:
    ping = request_of("PING")
    with commanding(tmp_path, connections=1) as served, connected(served) as first:
        assert first.ask("PING").code == 200
        first.sock.sendall(ping[:20])
        await_that(lambda: received_bytes(served, first.sock) == 20, "its first bytes are received")
        with connected(served) as second:
            assert second.ask("PING").code == 503
        first.sock.sendall(ping[20:])
        assert [reply.code for reply in first.answers(1)] == [200]


def test_connection_that_has_just_come_is_not_idle(tmp_path: Path) -> None:
    with (
        commanding(tmp_path, connections=1, fresh_s=ANSWER_MAX_S) as served,
        connected(served) as first,
    ):
        await_that(lambda: is_accepted(served, first.sock), "it is accepted")
        with connected(served) as second:
            assert second.ask("PING").code == 503
        assert first.ask("PING").code == 200


def is_accepted(served: Served, sock: socket.socket) -> bool:
    return sock.getsockname() in [peer_of(one) for one in served.server._remaining()]


def test_connection_whose_bytes_wait_to_be_received_is_not_idle() -> None:
    near, far = socket.socketpair()
    with near, far:
        connection = Connection(near, Bounds(fresh_s=0.0), SystemClock())
        assert connection.idle_since_s() is not None
        far.sendall(request_of("PING")[:20])
        assert connection.idle_since_s() is None


def received_bytes(served: Served, sock: socket.socket) -> int:
    """Return how many bytes of the next request the server has received of a client."""
    name = sock.getsockname()
    remaining = served.server._remaining()
    return next(one.received_bytes for one in remaining if peer_of(one) == name)


@contextmanager
def subscribers(served: Served) -> Iterator[list[socket.socket]]:
    """As many subscribers as there are places, that go away without a word."""
    with ExitStack() as stack:
        socks = [stack.enter_context(served.connected()) for _ in range(SUBSCRIBERS)]
        for sock in socks:
            sock.sendall(SUBSCRIBE)
        yield socks


def received_up_to(sock: socket.socket, end: bytes) -> bytes:
    """Return what comes up to a text, or all until the server ends the connection."""
    received = b""
    while end not in received and (piece := sock.recv(65_536)):
        received += piece
    return received
