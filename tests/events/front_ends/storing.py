"""The vocabulary of clients that store one event a request, whose connections one thread has.

with storing(served) as client:     a connection that was handed over to that thread
    client.send(*texts)             commands, a request each, sent at once
    client.answers(2)               what the next requests are answered
    client.rest()                   all that still comes until the server ends the connection
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader

from connectors.serve.commands.store_reactor import STORES_IN_A_ROW
from connectors.serve.connection import Connection
from tests.events.front_ends.doors import Told
from tests.log.serve.served import Served, received_of
from tests.waiting import await_that

# It is refused, and leaves a store as it was.
_REFUSED = "STORE nobody FOR c PAYLOAD {}"


def request_of(text: str | bytes, token: str | None = None) -> bytes:
    """Return the bytes of a request with a command."""
    body = text.encode() if isinstance(text, str) else text
    named = {"Host": "127.0.0.1", "Accept": "application/json", "Content-Length": str(len(body))}
    if token is not None:
        named["Authorization"] = f"Bearer {token}"
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"POST /command HTTP/1.1\r\n{lines}\r\n".encode() + body


@dataclass(frozen=True, slots=True)
class Replied:
    """The answer to a request."""

    code: int
    body: bytes
    headers: dict[str, str]

    @property
    def answer(self) -> Told:
        return Told.of_json(self.body)


class StoringClient:
    """A client on a connection of its own."""

    def __init__(self, served: Served, sock: socket.socket, token: str | None) -> None:
        self.sock = sock
        self._served = served
        self._token = token
        self._file: BufferedReader = sock.makefile("rb")

    def send(self, *texts: str) -> None:
        self.sock.sendall(b"".join(request_of(text, self._token) for text in texts))

    def answers(self, count: int) -> list[Replied]:
        return [self._answer() for _ in range(count)]

    def ask(self, text: str) -> Replied:
        self.send(text)
        return self._answer()

    def close(self) -> None:
        self._file.close()

    def rest(self) -> bytes:
        return received_of(self.sock)

    def hand_over(self) -> None:
        """Store until the connection is handed over."""
        for _ in range(STORES_IN_A_ROW):
            self.ask(_REFUSED)
        await_that(lambda: self.is_handed_over, "the connection is handed over")

    @property
    def is_handed_over(self) -> bool:
        """Whether the thread of those that store has the connection."""
        return self.server_side is not None

    @property
    def server_side(self) -> Connection | None:
        """The server's end of it, as long as it is handed over."""
        clients = [*self._served.server.store_reactor._clients.values()]
        name = self.sock.getsockname()
        return next((one.connection for one in clients if peer_of(one.connection) == name), None)

    def await_given_back(self) -> None:
        await_that(lambda: not self.is_handed_over, "the connection has a thread of its own")

    def _answer(self) -> Replied:
        """Return the next answer; those behind it stay in the buffer."""
        line = self._file.readline()
        if not line:
            message = "the server has ended the connection"
            raise ConnectionError(message)
        headers: dict[str, str] = {}
        while (header := self._file.readline().decode().strip()) != "":
            name, _, value = header.partition(": ")
            headers[name] = value
        length = int(headers.pop("Content-Length", 0))
        return Replied(int(line.split()[1]), self._file.read(length), headers)


def peer_of(connection: Connection) -> object:
    """Return the address of a connection's client; None once it is closed."""
    try:
        return connection._socket.getpeername()
    except OSError:
        return None


@contextmanager
def storing(served: Served, token: str | None = None) -> Iterator[StoringClient]:
    """Connect, and have the connection handed over."""
    with connected(served, token) as client:
        client.hand_over()
        yield client


@contextmanager
def connected(
    served: Served, token: str | None = None, received_bytes: int | None = None
) -> Iterator[StoringClient]:
    """Connect; the system holds few bytes for a client that is told how many."""
    with served.connected(received_bytes) as sock:
        client = StoringClient(served, sock, token)
        try:
            yield client
        finally:
            client.close()
