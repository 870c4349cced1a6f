"""A server that stops is Busy for whoever still asks: the same command may go well soon.

The store of events is closed as by a server that stops, while each front end answers still.
"""

import json
import socket
from http.client import HTTPConnection
from urllib.parse import quote

import pytest
from websockets.sync.client import connect

from connectors.serve.connection import Connection, GoneError
from connectors.serve.http_request import HttpRequest, parse_head
from connectors.serve.settings import Bounds
from storage_core import SystemClock
from tests.events.front_ends.doors import DOORS, commanding, open_door, posted
from tests.events.front_ends.storing import request_of
from tests.log.serve.served import ANSWER_MAX_S

DEFINE = 'DEFINE order FIELDS { amount: "int" }'
STORE = 'STORE order FOR ann PAYLOAD { "amount": 1 }'
COMMANDS = (
    STORE,
    f"BATCH [ {STORE}; {STORE} ]",
    "QUERY order",
    "QUERY order COUNT",
    "REPLAY FOR ann",
    "SHOW mine",
    "FORGET mine",
    "FLUSH",
    "LIST TYPES",
    DEFINE,
)
TARGET = f"/subscribe?command={quote('SUBSCRIBE order')}"


@pytest.mark.parametrize("was_asked", [False, True])
@pytest.mark.parametrize("name", [name for name in DOORS if name != "command"])
def test_command_is_busy_at_a_server_that_stops(name, was_asked, tmp_path, shardlog) -> None:
    with open_door(name, tmp_path, shardlog) as door:
        for command in (DEFINE, STORE, "REMEMBER QUERY order AS mine") if was_asked else ():
            assert door.tell(command).status == "OK"
        assert door.served is not None
        door.served.server.handler.events.close()
        replies = {command: door.tell(command) for command in COMMANDS}
    assert {command: reply.status for command, reply in replies.items()} == dict.fromkeys(
        COMMANDS, "Busy"
    )
    assert {reply.message for reply in replies.values()} == {"the store of events is closed"}


def test_subscribing_is_busy_at_a_server_that_stops(tmp_path) -> None:
    with commanding(tmp_path) as served, connect(f"ws://{served.server.address}/ws") as socket:
        assert posted(served, DEFINE)[0] == 200
        served.server.handler.events.close()
        code, body, headers = posted(served, b"", "GET", TARGET)
        assert (code, json.loads(body)["status"], headers["Retry-After"]) == (503, "Busy", "1")
        socket.send("SUBSCRIBE order")
        assert json.loads(socket.recv(ANSWER_MAX_S))["status"] == "Busy"


def test_subscription_ends_as_busy_where_its_store_is_closed(tmp_path) -> None:
    with commanding(tmp_path) as served, connect(f"ws://{served.server.address}/ws") as socket:
        assert posted(served, DEFINE)[0] == 200
        connection = HTTPConnection(served.server.address, timeout=ANSWER_MAX_S)
        connection.request("GET", TARGET)
        lines = iter(connection.getresponse().readline, b"")
        assert b"event: caught_up\n" in lines
        socket.send("SUBSCRIBE order")
        messages = (json.loads(socket.recv(ANSWER_MAX_S)) for _ in range(100))
        assert any(message.get("event") == "caught_up" for message in messages)
        served.server.handler.events.close()
        assert b"event: failed\n" in lines
        assert json.loads(next(lines).removeprefix(b"data: "))["status"] == "Busy"
        ended = next(message for message in messages if message["event"] == "ended")
        assert ended["status"] == "Busy"
        connection.close()


@pytest.fixture
def waiting():
    """A connection that waits, to which a STORE was sent."""
    near, far = socket.socketpair()
    with near, far:
        far.sendall(request_of(STORE))
        yield Connection(near, Bounds(), SystemClock())


def test_request_whose_connection_ends_while_it_comes_is_not_done(waiting) -> None:
    """Its answer would reach nobody, and a STORE would be there that its client takes for lost."""

    def ends(_: HttpRequest) -> bool:
        assert waiting.cut_if_waiting()
        return True

    with pytest.raises(GoneError):
        waiting.next_request(ends)


def test_request_whose_connection_ends_before_it_is_taken_is_not_done(waiting) -> None:
    waiting.never_wait()
    assert waiting.receive_now()
    _, size = waiting.begun_request(parse_head)
    assert waiting.cut_if_waiting()
    with pytest.raises(GoneError):
        waiting.take_request(size)


def test_connection_whose_request_is_answered_does_not_end_as_one_that_waits(waiting) -> None:
    assert waiting.next_request(lambda _: True) is not None
    assert not waiting.cut_if_waiting()
    assert not waiting.is_cut
