"""HTTP whose answer is there by one moment, however slowly it comes.

The time-out of a socket bounds the wait for the next bytes alone, and begins anew with each: a peer
that sends a byte now and then would be waited for without end. Here every read waits for what is
left until that moment, of the head and the body, and so does each place that an answer leads to.
"""

import ssl
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import socket
from typing import TYPE_CHECKING, Any
from urllib.request import (
    BaseHandler,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)

from storage_core.platform.overriding import override

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Returns how many seconds are left; raises TimeoutError if none are.
Left = Callable[[], float]


def timed_opener(context: ssl.SSLContext, left_s: Left, *others: BaseHandler) -> OpenerDirector:
    """Return what opens addresses by HTTP and HTTPS, for one question.

    Args:
        context: Whom we trust and who we are.
        left_s: How long the question may still take.
        others: Further handlers.
    """
    return build_opener(_Http(left_s), _Https(context, left_s), *others)


class _Http(HTTPHandler):
    def __init__(self, left_s: Left) -> None:
        super().__init__()
        self._left_s = left_s

    @override
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_timed(HTTPConnection, self._left_s), req)


class _Https(HTTPSHandler):
    def __init__(self, context: ssl.SSLContext, left_s: Left) -> None:
        super().__init__(context=context)
        self._tls = partial(HTTPSConnection, context=context)
        self._left_s = left_s

    @override
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_timed(self._tls, self._left_s), req)


def _timed(made: Callable[..., HTTPConnection], left_s: Left) -> Any:  # noqa: ANN401 - as urllib calls it
    def connection(host: str, *, timeout: float, **rest: object) -> HTTPConnection:
        opened: Any = made(host, timeout=min(timeout, left_s()), **rest)
        opened.response_class = partial(_TimedResponse, left_s=left_s)
        return opened  # type: ignore[no-any-return]  # what `made` returns

    return connection


class _TimedResponse(HTTPResponse):
    """An answer, each of whose reads waits for no longer than is left."""

    def __init__(self, sock: socket, *args: Any, left_s: Left, **rest: Any) -> None:  # noqa: ANN401 - as http.client calls it
        super().__init__(sock, *args, **rest)
        # Nothing was read yet.
        self.fp: Any = BufferedReader(_TimedReader(self.fp.detach(), sock, left_s))


class _TimedReader(RawIOBase):
    def __init__(self, raw: RawIOBase, sock: socket, left_s: Left) -> None:
        self._raw = raw
        self._sock = sock
        self._left_s = left_s

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: "Buffer", /) -> int | None:
        self._sock.settimeout(self._left_s())
        return self._raw.readinto(buffer)

    @override
    def close(self) -> None:
        self._raw.close()
        super().close()
