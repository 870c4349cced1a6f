"""HTTP as strangers speak it: whatever comes, the server answers or hangs up, and goes on."""

import json
from random import Random

import pytest

from connectors.serve.http_request import parse_head
from storage_core import Stream, StreamOptions
from storage_core.protocol import ROOT
from tests.log.serve.served import Served, received_of, serving

LIVE = b"GET /health/live HTTP/1.1\r\n"
BAD = {
    "no version": (b"GET /health/live\r\n\r\n", 400),
    "another version": (b"GET / HTTP/2.0\r\n\r\n", 400),
    "another method": (b"DELETE / HTTP/1.1\r\n\r\n", 405),
    "proxy's target": (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
    "path that is no text": (b"GET /%FF HTTP/1.1\r\n\r\n", 400),
    "header without a colon": (LIVE + b"x\r\n\r\n", 400),
    "header with a space": (LIVE + b"x : 1\r\n\r\n", 400),
    "folded header": (LIVE + b"x: 1\r\n y\r\n\r\n", 400),
    "bare line feed": (LIVE + b"x: 1\ny: 2\r\n\r\n", 400),
    "nul": (LIVE + b"x: \0\r\n\r\n", 400),
    "two lengths": (LIVE + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
    "length that is none": (LIVE + b"Content-Length: +1\r\n\r\n", 400),
    "endless length": (LIVE + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 400),
    "chunked body": (LIVE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
    "large body": (LIVE + b"Content-Length: 999999999\r\n\r\n", 413),
    "many headers": (LIVE + b"".join(b"x%d: 1\r\n" % n for n in range(99)) + b"\r\n", 431),
    "large headers": (LIVE + b"x: " + b"y" * 20_000 + b"\r\n\r\n", 431),
    "endless line": (b"GET /" + b"x" * 20_000, 431),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server over an empty root, that waits for no slow request."""
    root = tmp_path_factory.mktemp("root")
    Stream.create(root, "orders", StreamOptions(shards=1)).close()
    with serving(root, request_s=0.5) as served:
        yield served


@pytest.mark.parametrize("sent", BAD)
def test_request_that_is_not_http_ends_its_connection(served: Served, sent: str) -> None:
    request, status = BAD[sent]
    answer = served.exchange(request)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close" in head
    assert json.loads(body)["error"]["kind"] == "InvalidRequestError"


def test_random_bytes_never_hurt_the_server(served: Served) -> None:
    chance = Random(7)
    good = LIVE + b"Host: localhost\r\nConnection: close\r\n\r\n"
    for _ in range(100):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        served.exchange(bytes(data) + b"\r\n\r\n\r\n\r\n")
    assert served.get("/health/live").read() == b'{"healthy":true}\n'


def test_request_shows_no_token() -> None:
    request = parse_head(b"GET /v1/streams HTTP/1.1\r\nAuthorization: Bearer of-somebody")
    assert "of-somebody" in request.headers["authorization"]
    assert "of-somebody" not in repr(request)


def test_requests_follow_each_other_on_one_connection(served: Served) -> None:
    more = b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n"
    answer = served.exchange((LIVE + b"\r\n") * 3 + more)
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.endswith(b'{"version":"1.2.3"}\n')


def test_old_client_gets_an_answer_without_chunks(served: Served) -> None:
    answer = served.exchange(b"GET /v1/streams/orders/scan HTTP/1.0\r\n\r\n")
    assert b"chunked" not in answer
    assert b"Connection: close" in answer


def test_head_has_no_body(served: Served) -> None:
    answer = served.exchange(b"HEAD /health/live HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 17" in answer
    refused = served.exchange(b"HEAD /v1/streams HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 405 ")
    assert refused.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("path", [b"/nope", b"/v1/streams", b"/v1/streams/nope/read", b"/"])
def test_refused_head_leaves_nothing_before_the_next_answer(served: Served, path: bytes) -> None:
    live = LIVE + b"Connection: close\r\n\r\n"
    answer = served.exchange(b"HEAD %s HTTP/1.1\r\n\r\n" % path + live)
    assert b"\r\n\r\nHTTP/1.1 200 OK\r\n" in answer


def test_body_is_asked_for_where_the_client_waits(served: Served) -> None:
    head = b"POST /v1/streams HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
    with served.connected() as sock:
        sock.sendall(head + b"Connection: close\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"{}")
        assert b"200 OK" in received_of(sock)


@pytest.mark.parametrize("sent", [b"", b"GET /hea", LIVE + b"Content-Length: 5\r\n\r\n12"])
def test_request_that_does_not_end_is_given_up(served: Served, sent: bytes) -> None:
    with served.connected() as sock:
        sock.sendall(sent or b"G")
        assert b"200" not in received_of(sock)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /v1/streams HTTP/1.1\r\nContent-Length: 1\r\n\r\n1", 400),
        (b"POST /v1/streams?x=1 HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"GET /v1/streams/orders/read?nope=1 HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/streams/orders/nope HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/streams/orders HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/a/b/c/d HTTP/1.1\r\n\r\n", 404),
        (b"GET /nope HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/streams/orders/scan HTTP/1.1\r\nShardlog-Compression: x\r\n\r\n", 400),
    ],
)
def test_request_that_means_nothing_leaves_its_connection_open(
    served: Served, request_: bytes, status: int
) -> None:
    live = LIVE + b"Connection: close\r\n\r\n"
    answer = served.exchange(request_ + live)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(ROOT.encode()) == 2
    assert b"200 OK" in answer
