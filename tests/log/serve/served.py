"""The vocabulary of tests of the server: a server in this process, asked in plain HTTP.

with serving(root, answers=2) as served:     a server with these bounds
    served.rows("read", stream, ids=(7,))    the rows of a call, as a table
    served.result("committed", stream)       what a call returns in JSON
    served.refusal("read", "nope")           the error that it is
    served.exchange(b"GET / ...")            all that comes back on a connection of its own
    with served.stalled("scan", stream): …   a client that takes nothing of its answer
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pyarrow as pa

from connectors.serve.server import ShardServer
from connectors.serve.settings import Bounds, ServeSettings
from storage_core import ShardlogError
from storage_core.protocol import (
    CALLS,
    RowStream,
    decode_result,
    encode_body,
    encode_query,
    error_from_answer,
)

ANSWER_MAX_S = 120.0
# Less than any answer that is to stall.
_RECEIVED_BYTES = 4096


class Served:
    """A server, and a client of it."""

    def __init__(self, server: ShardServer, headers: Mapping[str, str]) -> None:
        self.server = server
        self.headers = dict(headers)
        self._connection = HTTPConnection(server.address, timeout=ANSWER_MAX_S)

    def close(self) -> None:
        self._connection.close()

    def ask(
        self, call: str, stream: str = "", *, by_query: bool = False, **values: Any
    ) -> HTTPResponse:
        """Return the answer to a call, which is to be read before the next one is made."""
        parameters = CALLS[call].parameters
        path = CALLS[call].path(stream)
        if by_query:
            return self.get(f"{path}?{encode_query(parameters, values)}")
        self._connection.request("POST", path, encode_body(parameters, values), self.headers)
        return self._connection.getresponse()

    def begin(self, call: str, stream: str = "", **values: Any) -> None:
        """Make a call whose answer comes later: `answer_begun` waits for it."""
        path = CALLS[call].path(stream)
        body = encode_body(CALLS[call].parameters, values)
        self._connection.request("POST", path, body, self.headers)

    def answer_begun(self, call: str) -> Any:
        return decode_result(CALLS[call], self._connection.getresponse().read())

    def post(self, path: str, body: bytes) -> tuple[int, str]:
        """Return the status and body of the answer to some bytes."""
        self._connection.request("POST", path, body, self.headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()

    def get(self, path: str) -> HTTPResponse:
        self._connection.request("GET", path, headers=self.headers)
        return self._connection.getresponse()

    def rows(self, call: str, stream: str, **values: Any) -> pa.Table:
        return self.rows_and_result(call, stream, **values)[0]

    def rows_and_result(self, call: str, stream: str, **values: Any) -> tuple[pa.Table, Any]:
        answer = self.ask(call, stream, **values)
        if answer.status != 200:
            raise error_from_answer(answer.status, answer.read(), "the server")
        rows = RowStream(answer)
        try:
            table = rows.read_all()
        except ShardlogError:
            # Some of the answer may still be on its way.
            self._connection.close()
            raise
        answer.read()
        assert rows.is_whole
        return table, rows.result

    def result(self, call: str, stream: str = "", **values: Any) -> Any:
        answer = self.ask(call, stream, **values)
        body = answer.read()
        if answer.status != 200:
            raise error_from_answer(answer.status, body, "the server")
        return decode_result(CALLS[call], body)

    def refusal(self, call: str, stream: str = "", **values: Any) -> ShardlogError:
        """Return the error that a call is answered, before any row."""
        answer = self.ask(call, stream, **values)
        body = answer.read()
        assert answer.status != 200
        return error_from_answer(answer.status, body, "the server")

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples."""
        lines = self.get("/metrics").read().decode().splitlines()
        values = [
            float(line.split()[-1]) for line in lines if line.split("{")[0].split()[0] == name
        ]
        assert values, f"there is no metric {name}"
        return sum(values)

    @contextmanager
    def connected(self, received_bytes: int | None = None) -> Iterator[socket.socket]:
        """A connection of its own; the system holds so few bytes for it, if that is said."""
        with socket.socket() as sock:
            sock.settimeout(ANSWER_MAX_S)
            if received_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received_bytes)
            sock.connect((self.server.host, self.server.port))
            yield sock

    def exchange(self, sent: bytes) -> bytes:
        """Return all that comes back for some bytes until the server ends the connection."""
        with self.connected() as sock:
            sock.sendall(sent)
            return received_of(sock)

    @contextmanager
    def stalled(self, call: str, stream: str, **values: Any) -> Iterator[socket.socket]:
        """A client that asks, and takes nothing beyond the first bytes of its answer."""
        with self.connected(_RECEIVED_BYTES) as sock:
            query = encode_query(CALLS[call].parameters, values)
            target = f"{CALLS[call].path(stream)}?{query}"
            sock.sendall(f"GET {target} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
            assert sock.recv(1)
            yield sock


def received_of(sock: socket.socket) -> bytes:
    """Return all that still comes on a connection."""
    received = bytearray()
    while piece := _received(sock):
        received += piece
    return bytes(received)


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65_536)
    except ConnectionError:
        return b""


@contextmanager
def serving(
    root: Path, *, headers: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[Served]:
    """Serve a root in this process.

    Args:
        root: The root.
        headers: What the client sends in each request.
        settings: Settings and bounds, by their names.
    """
    bounds = {name: settings.pop(name) for name in list(settings) if hasattr(Bounds, name)}
    defaults = {"root": root, "listen": "127.0.0.1:0", "bounds": Bounds(**bounds)}
    with ShardServer(ServeSettings(**{**defaults, **settings}), "1.2.3") as server:
        served = Served(server, headers or {})
        try:
            yield served
        finally:
            served.close()
