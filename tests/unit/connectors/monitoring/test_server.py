"""The HTTP server: what it answers, and that nobody keeps it from others."""

import http.client
import socket
import threading
from http import HTTPStatus

import pytest

from connectors.monitoring.answers import Answer
from connectors.monitoring.server import OperationsServer
from connectors.settings.operations_settings import is_loopback, split_address
from storage_core import InvalidRequestError, UnavailableError
from tests.waiting import WAIT_MAX_S, await_that

ANY_PORT = "127.0.0.1:0"


def echo(path):
    return Answer(HTTPStatus.OK, path.encode())


@pytest.fixture
def server():
    made = OperationsServer(ANY_PORT, echo)
    yield made
    made.close()


def ask(server, method="GET", path="/some"):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=WAIT_MAX_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def is_answered(server):
    """Tell whether there is an answer, and not a place short or a question that was too slow."""
    try:
        return ask(server)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def sent(server, raw):
    """Return all that is answered to bytes."""
    with socket.create_connection((server.host, server.port), timeout=WAIT_MAX_S) as connection:
        connection.sendall(raw)
        response = b""
        try:
            while part := connection.recv(65_536):
                response += part
        except ConnectionResetError:
            pass
        return response


def test_path_is_answered_without_what_is_asked_of_it(server):
    assert ask(server, path="/metrics?x=1") == (200, b"/metrics")


def test_head_has_no_body(server):
    assert ask(server, "HEAD") == (200, b"")


def test_other_methods_are_refused(server):
    assert ask(server, "POST")[0] == 405


@pytest.mark.parametrize(
    "raw", [b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / x HTTP/1.1\r\n\r\n", b"\xff\r\n\r\n"]
)
def test_what_is_no_question_is_refused(server, raw):
    assert sent(server, raw).startswith(b"HTTP/1.1 400 ")
    assert ask(server)[0] == 200


def test_question_without_end_is_refused(server):
    said = sent(server, b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)
    # What was not read yet may take the answer with it.
    assert not said or said.startswith(b"HTTP/1.1 431 ")
    assert ask(server)[0] == 200


def test_slow_clients_are_cut_and_more_than_some_are_turned_away():
    server = OperationsServer(ANY_PORT, echo, question_within_s=0.5)
    where = (server.host, server.port)
    slow = [socket.create_connection(where, timeout=WAIT_MAX_S) for _ in range(40)]
    try:
        for connection in slow:
            # Those above the bound at once, the others in their time: none has an answer.
            try:
                assert connection.recv(1) == b""
            except ConnectionResetError:
                continue
        await_that(lambda: is_answered(server), "an answer")
    finally:
        for connection in slow:
            connection.close()
        server.close()


def test_what_is_answered_at_once_waits_for_nobody():
    is_over = threading.Event()

    def wait(path):
        is_over.wait(WAIT_MAX_S)
        return echo(path)

    server = OperationsServer(ANY_PORT, wait, lambda path: echo(path) if path == "/live" else None)
    where = (server.host, server.port)
    try:
        with socket.create_connection(where, timeout=WAIT_MAX_S) as waiting:
            waiting.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert ask(server, path="/live") == (200, b"/live")
            is_over.set()
            assert waiting.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        is_over.set()
        server.close()


def test_close_frees_the_port(server):
    server.close()
    again = OperationsServer(server.address, echo)
    again.close()
    again.close()


def test_taken_port_is_told(server):
    with pytest.raises(UnavailableError, match=f"{server.address} cannot be had: address already"):
        OperationsServer(server.address, echo)


@pytest.mark.parametrize("listen", ["no such host:1", "192.0.2.1:9404"])
def test_address_of_another_machine_is_refused(listen):
    with pytest.raises(InvalidRequestError, match="metrics"):
        OperationsServer(listen, echo)


@pytest.mark.parametrize(
    ("text", "response"),
    [
        ("127.0.0.1:9404", ("127.0.0.1", 9404)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_address_has_a_host_and_a_port(text, response):
    assert split_address(text) == response
    assert is_loopback(response[0])


@pytest.mark.parametrize(
    "text", ["9404", ":9404", "host", "host:", "host:x", "host:65536", "::1:5", "[]:1"]
)
def test_other_text_is_no_address(text):
    with pytest.raises(ValueError, match="is not an address"):
        split_address(text)


def test_all_addresses_are_not_loopback():
    assert not any(map(is_loopback, ("::", "10.1.2.3", "a.host")))
