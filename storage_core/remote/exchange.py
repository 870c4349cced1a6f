"""A request of HTTP/1.1 as it is sent, and the head of its answer as it is read.

Made for short answers: the standard library's client puts a request together in many steps, and
reads headers with the parser of mails. Of a read of a hundred rows that was 15 % of what the client
does. The body is read as there; it has a length or comes in chunks, and is refused otherwise.
"""

import socket
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException, HTTPResponse, RemoteDisconnected
from typing import Final, NamedTuple

import pyarrow as pa

from storage_core.platform.overriding import override

_LINE_MAX: Final = 65_536
_HEADERS_MAX: Final = 100
_STATUS_DIGITS: Final = 3
# What is larger is sent from where it lies.
_COPIED_MAX: Final = 65_536
_VERSION: Final = b"HTTP/1."


class Question(NamedTuple):
    """What is sent: a request of HTTP without its headers."""

    method: str
    target: str
    body: bytes | pa.Buffer | None = None


def host_of(host: str, port: int, default_port: int) -> str:
    """Return the header `Host` of an address."""
    try:
        name = host.encode("ascii").decode()
    except UnicodeEncodeError:
        name = host.encode("idna").decode()
    if ":" in name:
        name = f"[{name}]"
    return name if port == default_port else f"{name}:{port}"


def send_question(
    sock: socket.socket, question: Question, host: str, headers: dict[str, str]
) -> None:
    """Send a request; a short body goes in the packet of its headers.

    Raises:
        HTTPException: A header has something in it that no header can have.
        OSError: The connection broke.
    """
    lines = [f"{question.method} {question.target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    body = memoryview(b"" if question.body is None else question.body)
    if question.body is not None or question.method == "POST":
        lines.append(f"Content-Length: {body.nbytes}")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
        message = "a header has more than a line"
        raise HTTPException(message)
    try:
        head = text.encode("latin-1") + b"\r\n\r\n"
    except UnicodeEncodeError as error:
        message = "a header has letters that are not sent"
        raise HTTPException(message) from error
    if body.nbytes <= _COPIED_MAX:
        sock.sendall(b"".join((head, body)))
        return
    sock.sendall(head)
    sock.sendall(body)


class Response(HTTPResponse):
    """An answer whose head was read.

    Attributes:
        fields: The headers, by their names in small letters.
    """

    def __init__(self, sock: socket.socket, method: str) -> None:
        """Read nothing yet; `begin` does."""
        super().__init__(sock, method=method)
        self.fields: dict[str, str] = {}

    @override
    def begin(self) -> None:
        """Read the head.

        Raises:
            RemoteDisconnected: It was cut, or what follows it has no length.
            BadStatusLine: It is not HTTP.
            HTTPException: It cannot be read.
        """
        version, self.status = _status_of(self._line(is_first=True))
        self.fields = self._headers()
        while self.status == HTTPStatus.CONTINUE:
            version, self.status = _status_of(self._line(is_first=True))
            self.fields = self._headers()
        self.code = self.status
        self.chunked = self.fields.get("transfer-encoding", "").lower() == "chunked"
        if self.chunked:
            self.length = None
            # Its name in every Python from 3.11 on; what it begins with there is no number.
            self.chunk_left: int | None = None
        else:
            self.length = _length_of(self.fields.get("content-length"))
        is_old = version == "HTTP/1.0"
        self.will_close = is_old or "close" in self.fields.get("connection", "").lower()

    def _line(self, *, is_first: bool = False) -> str:
        line = self.fp.readline(_LINE_MAX + 1)
        if len(line) > _LINE_MAX:
            message = "its headers are too long"
            raise HTTPException(message)
        if not line.endswith(b"\n"):
            if is_first and not line.startswith(_VERSION[: len(line)]):
                raise BadStatusLine(repr(line))
            message = "its headers were cut"
            raise RemoteDisconnected(message)
        return line.decode("latin-1").rstrip("\r\n")

    def _headers(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        for _ in range(_HEADERS_MAX):
            line = self._line()
            if not line:
                return fields
            name, colon, value = line.partition(":")
            name = name.lower()
            if not colon or not name or name[0] in " \t":
                message = "one of its headers cannot be read"
                raise HTTPException(message)
            value = value.strip(" \t")
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        message = f"it has more than {_HEADERS_MAX} headers"
        raise HTTPException(message)


def _status_of(line: str) -> tuple[str, int]:
    version, _, rest = line.partition(" ")
    digits = rest[:_STATUS_DIGITS]
    is_status = len(digits) == _STATUS_DIGITS and digits.isascii() and digits.isdecimal()
    if not version.startswith(_VERSION.decode()) or not is_status:
        raise BadStatusLine(line)
    return version, int(digits)


def _length_of(text: str | None) -> int:
    if text is None:
        message = "its body has no length"
        raise RemoteDisconnected(message)
    if not (text.isascii() and text.isdecimal()):
        message = "the length of its body is no number"
        raise HTTPException(message)
    return int(text)
