"""An answer on its way: a status, headers, and a body in pieces, which need not be known before.

What fits into one piece has a Content-Length and is one send. What is longer goes in chunks, each
once some 64 KiB have come together, so an answer is never in memory as a whole.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, Protocol

_FLUSHED_AT: Final = 65_536
# What is larger is sent from where it lies.
_COPIED_MAX: Final = 131_072

Piece = bytes | memoryview


def header_lines(headers: Mapping[str, str]) -> str:
    """Return headers as the lines of a head."""
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])


class Sink(Protocol):
    """What an answer is written to: a connection, or what collects it."""

    def send(self, pieces: Iterable[Piece]) -> int:
        """Send all of some pieces; return how many bytes they were."""
        ...


class AnswerWriter:
    """Writes one answer. One thread.

    Attributes:
        has_begun: Whether some of it may be sent.
    """

    def __init__(self, connection: Sink, own: str, *, is_head: bool = False) -> None:
        """Write to a connection, with lines of headers of the server's own; to a HEAD no body."""
        self._connection = connection
        self._is_head = is_head
        self.has_begun = False
        self._own = own

    def write_whole(
        self,
        status: HTTPStatus,
        headers: Mapping[str, str],
        body: bytes,
        *,
        closes: bool = False,
    ) -> int:
        """Send an answer whose body is there; return the bytes sent."""
        lines = {**headers, "Content-Length": str(len(body))}
        head = self._head(status, lines, closes=closes)
        return self._connection.send([head if self._is_head else head + body])

    def write_pieces(
        self,
        headers: Mapping[str, str],
        pieces: Iterable[Piece],
        *,
        is_old: bool,
        closes: bool,
        flushed_at: int = _FLUSHED_AT,
    ) -> int:
        """Send an answer as its body comes; return the bytes sent.

        Where an error comes out of `pieces`, the body has no end, and the connection must be cut.

        Args:
            headers: The answer's own.
            pieces: The body.
            is_old: Whether the client knows no chunks: the end of the connection ends the body.
            closes: Whether the connection ends with the answer.
            flushed_at: How many bytes are sent together; with 0 each piece is sent as it comes.
        """
        waiting: list[Piece] = []
        size = sent = 0
        # What stands before the next piece: the head first, then the end of the chunk before.
        before = b""
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size < flushed_at:
                continue
            if not self.has_begun:
                chunked = {} if is_old else {"Transfer-Encoding": "chunked"}
                before = self._head(HTTPStatus.OK, {**headers, **chunked}, closes=closes or is_old)
            sent += self._send_chunk(before, waiting, size, is_old=is_old)
            before = b"" if is_old else b"\r\n"
            waiting, size = [], 0
        if not self.has_begun:
            body = b"".join(waiting)
            return self.write_whole(HTTPStatus.OK, headers, body, closes=closes)
        if waiting:
            sent += self._send_chunk(before, waiting, size, is_old=is_old)
        return sent if is_old else sent + self._connection.send([b"\r\n0\r\n\r\n"])

    def write_switch(self, headers: Mapping[str, str]) -> int:
        """Send an answer that makes another protocol of the connection; return the bytes sent."""
        head = self._head(HTTPStatus.SWITCHING_PROTOCOLS, headers, closes=False)
        return self._connection.send([head])

    def _send_chunk(self, before: bytes, pieces: list[Piece], size: int, *, is_old: bool) -> int:
        head = before if is_old else b"%s%x\r\n" % (before, size)
        if size <= _COPIED_MAX:
            return self._connection.send([b"".join((head, *pieces))])
        return self._connection.send([head, *pieces])

    def _head(self, status: HTTPStatus, headers: Mapping[str, str], *, closes: bool) -> bytes:
        self.has_begun = True
        lines = header_lines(headers)
        connection = "Connection: close\r\n" if closes else ""
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        return f"{line}{self._own}{lines}{connection}\r\n".encode("latin-1")
