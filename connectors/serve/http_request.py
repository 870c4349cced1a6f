"""A request as HTTP/1.1 has it: its line, headers and body, parsed from bytes.

Strict, since a proxy may stand before the server and read otherwise: one Content-Length or none,
no Transfer-Encoding, no folded lines, no bare line feeds. A body has a known length.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from connectors.serve.refusals import RefusedError, no_room
from storage_core.protocol import CALLS

HEADERS_MAX: Final = 64
HEAD_END: Final = b"\r\n\r\n"
_METHODS: Final = ("GET", "HEAD", "POST")
_LINE_PARTS: Final = 3
# A name is a token, and a value has no control character that another reader may take for an end.
_HEADER: Final = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\0\r\n]*)")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request.

    Attributes:
        method: GET, HEAD or POST.
        segments: The path's segments, decoded.
        query: The query string as it came.
        headers: Headers by their names in small letters.
        is_old: Whether the client speaks HTTP/1.0.
        body: The body.
    """

    method: str
    segments: tuple[str, ...]
    query: str
    # One of them is a token, which no text shows.
    headers: Mapping[str, str] = field(repr=False)
    is_old: bool = False
    body: bytes = b""

    def with_body(self, body: bytes) -> "HttpRequest":
        """Return the same request with its body."""
        return HttpRequest(self.method, self.segments, self.query, self.headers, self.is_old, body)

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection."""
        connection = self.headers.get("connection", "").lower()
        return "close" not in connection and not self.is_old

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits to be told before it sends the body."""
        return self.headers.get("expect", "").lower() == "100-continue"

    @property
    def brings_rows(self) -> bool:
        """Whether the body is rows, which are read as they come."""
        last = self.segments[-1] if self.segments else ""
        call = CALLS.get(last)
        return self.method == "POST" and call is not None and call.takes_rows

    @property
    def body_bytes(self) -> int:
        """The length of the body that follows.

        Raises:
            RefusedError: It is not said as it has to be.
        """
        if "transfer-encoding" in self.headers:
            message = "a body needs a Content-Length; Transfer-Encoding is not taken"
            raise RefusedError(411, message, closes=True)
        text = self.headers.get("content-length", "0")
        if not (text.isascii() and text.isdecimal()) or len(text) > 15:  # noqa: PLR2004 - digits
            raise RefusedError(400, "Content-Length is no number", closes=True)
        return int(text)


def refuse_left_body(request: HttpRequest) -> None:
    """Refuse a request whose client may ask, and whose body found no room.

    Raises:
        BusyError: It is so.
    """
    if request.body_bytes and not request.body and not request.brings_rows:
        raise no_room()


def parse_head(head: bytes) -> HttpRequest:
    """Return the request of a line and headers, as they came, up to the empty line.

    Raises:
        RefusedError: They are not HTTP/1.1.
    """
    line, *rest = head.decode("latin-1").split("\r\n")
    parts = line.split(" ")
    if len(parts) != _LINE_PARTS or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise RefusedError(400, "the request is not HTTP/1.1", closes=True)
    method, target, version = parts
    if method not in _METHODS:
        raise RefusedError(405, f"{method[:20]!r} is none of {', '.join(_METHODS)}", closes=True)
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise RefusedError(400, "the path does not begin with a slash", closes=True)
    try:
        segments = tuple(unquote(text, errors="strict") for text in path[1:].split("/"))
    except UnicodeDecodeError as error:
        raise RefusedError(400, "the path is not UTF-8") from error
    return HttpRequest(method, segments, query, _headers(rest), version == "HTTP/1.0")


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > HEADERS_MAX:
        raise RefusedError(431, f"more than {HEADERS_MAX} headers", closes=True)
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise RefusedError(400, "a header cannot be read", closes=True)
        name = match[1].lower()
        if name in headers:
            # Of those that matter here, none may come twice.
            raise RefusedError(400, f"the header {name[:40]} comes twice", closes=True)
        headers[name] = match[2].strip(" \t")
    return headers


def begun_request(
    received: bytearray, bytes_max: int, parse: Callable[[bytes], HttpRequest]
) -> tuple[HttpRequest, int] | None:
    """Return the request that some bytes begin with, and its bytes; None before its head has come.

    It has its body once all of its bytes have come.

    Args:
        received: What has come.
        bytes_max: The most that a head has.
        parse: Parses a head, as `parse_head` does.

    Raises:
        RefusedError: It is too large, or not HTTP.
    """
    end = received.find(HEAD_END)
    if max(end, len(received) if end < 0 else 0) > bytes_max:
        raise RefusedError(431, "the headers are too large", closes=True)
    if end < 0:
        return None
    request = parse(bytes(received[:end]))
    begin = end + len(HEAD_END)
    size = begin + request.body_bytes
    if len(received) >= size:
        request = request.with_body(bytes(received[begin:size]))
    return request, size
