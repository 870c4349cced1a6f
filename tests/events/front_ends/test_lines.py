"""A command a line, over TCP and over a Unix socket: how an answer ends, and who may."""

import json
import socket
import stat

import pytest

from connectors.serve.commands.line_server import LineServer, listening_path
from connectors.serve.settings import Bounds
from storage_core import InvalidRequestError, SystemClock, UnavailableError
from tests.events.front_ends.doors import commanding, lines_of, posted
from tests.log.serve.served import ANSWER_MAX_S

WRITER = "write-token-of-tests"
PLACES = ("tcp", "unix")


@pytest.fixture(params=PLACES)
def lines(served, request):
    """A connection of each kind."""
    with lines_of(served, request.param) as lines:
        yield lines


def test_answer_in_text_ends_with_status_and_an_empty_line(lines) -> None:
    assert lines.ask("PING") == ["OK: PONG"]
    *table, status = lines.ask("describe order;")
    assert [line.split()[:2] for line in table] == [
        ["version", "field"],
        ["1", "amount"],
        ["1", "note"],
    ]
    assert status.startswith("OK: order")
    assert lines.ask("NOPE")[0].startswith("BadRequest: ")
    assert lines.ask("DESCRIBE nothing")[0].startswith("NotFound: ")


def test_answer_in_json_is_one_line(lines) -> None:
    lines.send("FORMAT json", "PING", "NOPE", "describe order", "format TEXT", "PING")
    said = [json.loads(lines.line()) for _ in range(4)]
    assert [each["status"] for each in said] == ["OK", "OK", "BadRequest", "OK"]
    assert said[3]["count"] == 2
    assert lines.answer() == ["OK: answers are text"]
    assert lines.answer() == ["OK: PONG"]


def test_empty_lines_and_ends_of_other_systems_are_taken(lines) -> None:
    lines.send("", "   ", "PING\r")
    assert lines.answer() == ["OK: PONG"]


@pytest.mark.parametrize(
    "line", [b"PING \xff", b"FORMAT xml", b"PING; PING", b"\0", b"AUTH", b'QUERY "']
)
def test_line_that_is_no_command_is_answered_and_the_next_one_too(lines, line) -> None:
    (reply,) = lines.ask(line)
    assert reply.startswith("BadRequest: ")
    assert lines.ask("PING") == ["OK: PONG"]


def test_line_that_is_too_long_ends_the_connection(lines) -> None:
    lines.send(b"x" * (2**20 + 100))
    assert lines.answer() == ["BadRequest: a line of more than 1,048,576 bytes"]
    assert lines.line() == ""


def test_line_without_room_beside_those_of_others_is_busy_and_the_next_one_is_done(
    tmp_path,
) -> None:
    bounds = {"bodies_bytes": 100_000, "command_listen": "127.0.0.1:0"}
    with commanding(tmp_path / "root", **bounds) as served, lines_of(served) as lines:
        (reply,) = lines.ask(b"PING" + b" " * 300_000)
        assert reply.startswith("Busy: requests hold all the memory there is for them")
        assert lines.ask(b"PING" + b" " * 80_000) == ["OK: PONG"]
        assert served.metric("shardlog_server_body_bytes") == 0


def test_last_line_without_its_end_is_refused(lines) -> None:
    # It may be the beginning of a longer command.
    lines.end('STORE order FOR ann PAYLOAD { "amount": 5 }')
    assert lines.answer() == ["BadRequest: the last line has no end: it was not done"]
    assert lines.line() == ""


@pytest.mark.parametrize("first", ["POST /command HTTP/1.1", "GET / HTTP/1.1", "PUT / HTTP/1.0"])
def test_page_of_a_browser_cannot_command_by_line(served, lines, first) -> None:
    before = served.metric("shardlog_server_commands_total")
    lines.send(first, "Host: localhost", "", 'STORE order FOR c PAYLOAD {"amount": 1}')
    assert lines.line() == ""
    assert served.metric("shardlog_server_commands_total") == before


def test_token_is_asked_for_once_and_a_wrong_one_ends_the_connection(tmp_path) -> None:
    (tmp_path / "tokens").write_text(WRITER)
    with commanding(tmp_path / "root", write_tokens=tmp_path / "tokens") as served:
        with lines_of(served) as lines:
            assert lines.ask(f"AUTH {WRITER}") == ["OK: the token is known"]
            assert lines.ask('DEFINE order FIELDS { amount: "int" }')[0].startswith("OK: ")
        for first in ("PING", "AUTH wrong-token-of-tests"):
            with lines_of(served) as lines:
                (reply,) = lines.ask(first)
                assert reply.startswith("BadRequest: this server ")
                assert lines.line() == ""


def test_server_that_only_reads_says_so_and_reads_on(tmp_path) -> None:
    with commanding(tmp_path, is_writable=False) as served, lines_of(served) as lines:
        assert "--write-token-file" in lines.ask('DEFINE order FIELDS { amount: "int" }')[0]
        assert lines.ask("PING") == ["OK: PONG"]


def test_unix_socket_is_for_its_user_and_goes_with_the_server(tmp_path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with commanding(tmp_path) as served:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(UnavailableError, match="another process listens"), commanding(tmp_path):
            pass
        assert posted(served, "PING")[0] == 200
    assert not path.exists()
    path.write_text("a file")
    with pytest.raises(InvalidRequestError, match="cannot be had"), commanding(tmp_path):
        pass
    assert path.read_text() == "a file"


def test_server_that_ends_leaves_the_socket_of_the_next_one(tmp_path) -> None:
    path = tmp_path / "socket"
    server = LineServer(*listening_path(path), lambda *_: None, Bounds(), SystemClock())
    server.stop()
    following, _ = listening_path(path)
    server.close(0)
    with following, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "nowhere", "[::]:0"])
def test_lines_are_for_this_machine_alone(tmp_path, listen) -> None:
    with pytest.raises(InvalidRequestError), commanding(tmp_path, command_listen=listen):
        pass


def test_connections_end_with_the_server_and_are_counted(tmp_path) -> None:
    with commanding(tmp_path) as served:
        host, _, port = served.server.line_servers[0].name.rpartition(":")
        sock = socket.create_connection((host, int(port)))
        sock.settimeout(ANSWER_MAX_S)
        with lines_of(served) as lines:
            lines.ask("PING")
            assert served.metric("shardlog_server_line_connections") == 2
    assert sock.recv(1) == b""
    sock.close()


def test_token_that_nobody_asks_for_is_taken_and_said(lines) -> None:
    assert lines.ask("AUTH token-of-another-server") == ["OK: no token is asked for here"]
