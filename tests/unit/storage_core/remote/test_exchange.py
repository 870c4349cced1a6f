"""What a client sends and reads of HTTP, over a pair of sockets."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import BadStatusLine, HTTPException, HTTPResponse, RemoteDisconnected

import pytest

from storage_core.remote.exchange import Question, Response, host_of, send_question

_HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: shardlog\r\nShardlog-Root:\t00ff\r\nX-Empty:\r\n"
    b"Content-Length: 5\r\n\r\n"
)
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nrow\r\n1\r\ns\r\n0\r\n\r\n"


@contextmanager
def _socket_with(data: bytes) -> Iterator[socket.socket]:
    """Have a socket whose other end has sent some bytes and no more."""
    near, far = socket.socketpair()
    with closing(near), closing(far):
        far.sendall(data)
        far.shutdown(socket.SHUT_WR)
        yield near


@contextmanager
def _response(data: bytes) -> Iterator[Response]:
    with _socket_with(data) as sock, closing(Response(sock, "GET")) as response:
        response.begin()
        yield response


def _sent(question: Question, headers: dict[str, str]) -> bytes:
    near, far = socket.socketpair()
    with closing(far):
        with closing(near):
            send_question(near, question, "a:8085", headers)
        return b"".join(iter(lambda: far.recv(65_536), b""))


@pytest.mark.parametrize("data", [_HEAD + b"12345", _CHUNKED], ids=["length", "chunked"])
def test_answer_is_read_as_the_standard_library_reads_it(data: bytes) -> None:
    with _socket_with(data) as sock, closing(HTTPResponse(sock, method="GET")) as standard:
        standard.begin()
        fields = {name.lower(): value for name, value in standard.getheaders()}
        expected = (standard.status, standard.length, standard.chunked, standard.will_close)
        body = standard.read()
    with _response(data) as response:
        said = (response.status, response.length, response.chunked, response.will_close)
        assert (response.fields, said, response.read()) == (fields, expected, body)


@pytest.mark.parametrize("size", range(len(_HEAD)))
def test_head_that_is_cut_anywhere_is_a_closed_connection(size: int) -> None:
    with pytest.raises(RemoteDisconnected), _response(_HEAD[:size]):
        pass


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", BadStatusLine),
        (b"HTTP/1.1 20x OK\r\n\r\n", BadStatusLine),
        (b"HTTP/1.1 2\r\n\r\n", BadStatusLine),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", RemoteDisconnected),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", HTTPException),
    ],
)
def test_head_that_cannot_be_trusted_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error), _response(data):
        pass


def test_answer_to_go_on_is_passed_over() -> None:
    with _response(b"HTTP/1.1 100 Continue\r\n\r\n" + _HEAD + b"12345") as response:
        assert (response.status, response.read()) == (200, b"12345")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n",
    ],
)
def test_connection_that_the_server_closes_is_not_kept(head: bytes) -> None:
    with _response(head) as response:
        assert response.will_close


def test_question_is_sent_with_its_headers_and_body() -> None:
    question = Question("POST", "/v1/streams/a/read", b"{}")
    expected = (
        b"POST /v1/streams/a/read HTTP/1.1\r\nHost: a:8085\r\nX: 1\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert _sent(question, {"X": "1"}) == expected
    assert _sent(Question("GET", "/"), {}) == b"GET / HTTP/1.1\r\nHost: a:8085\r\n\r\n"
    assert _sent(Question("POST", "/"), {}).endswith(b"Content-Length: 0\r\n\r\n")


@pytest.mark.parametrize("value", ["1\r\nY: 2", "1\nY: 2", "1\r", "\u20ac"])
def test_header_that_would_be_another_is_not_sent(value: str) -> None:
    with pytest.raises(HTTPException, match="a header"):
        _sent(Question("GET", "/"), {"X": value})


def test_host_names_the_address_as_a_url_does() -> None:
    assert host_of("a.example", 8085, 80) == "a.example:8085"
    assert host_of("::1", 8085, 80) == "[::1]:8085"
    assert host_of("a.example", 443, 443) == "a.example"
    assert host_of("b\u00fccher.example", 8085, 80) == "xn--bcher-kva.example:8085"
