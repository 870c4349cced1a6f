"""Connections whose clients store one event a request: answered by one thread as by their own.

That each form is answered alike there is in test_doors.py, kill -9 in test_killed_server.py.
"""

import socket
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.events.front_ends.doors import commanding, posted
from tests.events.front_ends.storing import (
    StoringClient,
    connected,
    request_of,
    storing,
)
from tests.events.front_ends.test_killed_server import names_stored
from tests.log.serve.served import Served
from tests.waiting import await_that
from typed_events.event_store import EventStore

READ, WRITE = "read-token-of-tests", "write-token-of-tests"
DEFINE = 'DEFINE order FIELDS { name: "string" }'
# More answers than the system holds for a client that takes none of them.
_MANY = 300
_FEW_BYTES = 4096


def store(name: object, context: str = "c") -> str:
    return f'STORE order FOR {context} PAYLOAD {{ "name": "{name}" }}'


@pytest.fixture(scope="module")
def defined(tmp_path_factory):
    """A server whose store has a type."""
    with commanding(tmp_path_factory.mktemp("storing") / "root") as served:
        assert served.post("/command", DEFINE.encode())[0] == 200
        yield served


def test_requests_sent_at_once_are_answered_in_their_order(defined) -> None:
    with storing(defined) as client:
        client.send(*(store(number, "at-once") for number in range(30)))
        client.send("QUERY order FOR at-once RETURN [name]", store("last", "at-once"))
        *stored, rows, last = client.answers(32)
    assert {reply.answer.status for reply in stored} == {"OK"}
    positions = [int(reply.answer.rows[0]["id"].partition(":")[2]) for reply in [*stored, last]]
    assert positions == sorted(positions)
    assert [row["name"] for row in rows.answer.rows] == [str(number) for number in range(30)]


def test_what_was_sent_before_the_client_ended_is_answered(defined) -> None:
    with storing(defined) as client:
        client.send(*(store(number) for number in range(5)))
        client.sock.shutdown(socket.SHUT_WR)
        assert [reply.code for reply in client.answers(5)] == [200] * 5
        assert client.rest() == b""


def test_request_may_come_in_pieces(defined) -> None:
    request = request_of(store("pieces"))
    with storing(defined) as client:
        for cut in (1, request.index(b"\r\n\r\n"), len(request) - 1):
            client.sock.sendall(request[:cut])
            await_that(lambda: partial_count(defined) == 1, "a request that has begun")
            client.sock.sendall(request[cut:])
            (reply,) = client.answers(1)
            assert reply.code == 200
        assert client.is_handed_over


def partial_count(served: Served) -> int:
    return sum(client.is_partial for client in [*served.server.store_reactor._clients.values()])


@pytest.mark.parametrize("sent", [b"", b"POST /comm"], ids=["idle", "half a request"])
def test_connection_whose_time_is_over_is_closed(tmp_path, sent) -> None:
    with commanding(tmp_path) as served, storing(served) as client:
        reactor = served.server.store_reactor
        reactor._bounds = replace(reactor._bounds, idle_s=0.1, request_s=0.1)
        if sent:
            client.sock.sendall(sent)
        else:
            client.ask("STORE nobody FOR c PAYLOAD {}")
        assert client.rest() == b""
        assert len(reactor) == 0


def test_client_that_takes_no_answers_gets_all_of_them_later(defined) -> None:
    with connected(defined, received_bytes=_FEW_BYTES) as client:
        client.hand_over()
        connection = client.server_side
        assert connection is not None
        connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _FEW_BYTES)
        client.send(*(store(number, "slow") for number in range(_MANY)))
        client.await_given_back()
        client.sock.shutdown(socket.SHUT_WR)
        replies = client.answers(_MANY)
    positions = [int(reply.answer.rows[0]["id"].partition(":")[2]) for reply in replies]
    assert positions == sorted({*positions})


def test_client_that_goes_away_leaves_no_connection(defined) -> None:
    with storing(defined) as client:
        connection = client.server_side
        client.send(store("gone"))
    await_that(lambda: connection not in defined.server._remaining(), "the end of the connection")


def test_connection_idle_longest_makes_room(tmp_path) -> None:
    with (
        commanding(tmp_path, connections=2) as served,
        storing(served) as first,
        storing(served) as second,
        connected(served) as third,
    ):
        assert third.ask("PING").code == 200
        assert first.rest() == b""
        assert second.ask("PING").code == 200


def test_other_command_goes_back_to_a_thread_and_later_stores_come_again(defined) -> None:
    with storing(defined) as client:
        for text in ("PING", "QUERY order COUNT", "NOPE", f"{store(1)}\n{store(2)}"):
            reply = client.ask(text)
            assert reply.body == posted(defined, text)[1] or "STORE" in text
            client.await_given_back()
            client.hand_over()


@pytest.mark.parametrize(
    "request_",
    [
        request_of(store(1)).replace(b"127.0.0.1", b"example.org"),
        request_of(store(1)).replace(b"Accept:", b"Origin: http://example.org\r\nX-Accept:"),
        request_of(store(1)).replace(b"Accept: application/json", b"Accept: image/png"),
        request_of(store(1)).replace(b"/command", b"/nowhere"),
        request_of(store("x" * 2**20)),
        b"NOPE\r\n\r\n",
        request_of(b"STORE \xff"),
        request_of(store(1)).replace(b"Accept:", b"Connection: close\r\nAccept:"),
    ],
    ids=["host", "origin", "form", "path", "size", "no request", "no text", "last"],
)
def test_request_is_refused_as_by_a_thread_of_its_own(defined, request_) -> None:
    with connected(defined) as client:
        client.sock.sendall(request_)
        expected = client.answers(1)[0]
    with storing(defined) as client:
        client.sock.sendall(request_)
        reply = client.answers(1)[0]
    assert reply.code == expected.code
    # The one that is stored says where.
    varying = (
        {} if expected.code != 200 else {"Shardlog-Message": reply.headers["Shardlog-Message"]}
    )
    assert reply.headers == {**expected.headers, **varying}
    assert reply.body == expected.body or varying


def test_token_that_may_not_write_stores_nothing(tmp_path) -> None:
    (tmp_path / "read").write_text(READ)
    (tmp_path / "write").write_text(WRITE)
    tokens = {"read_tokens": tmp_path / "read", "write_tokens": tmp_path / "write"}
    with commanding(tmp_path / "root", **tokens) as served:
        assert posted(served, DEFINE, Authorization=f"Bearer {WRITE}")[0] == 200
        with storing(served, READ) as reading, storing(served, WRITE) as writing:
            assert reading.ask(store("no")).code == 403
            assert writing.ask(store("yes")).code == 200
            writing.sock.sendall(request_of(store("no")))
            assert writing.answers(1)[0].code == 401
    assert names_stored(tmp_path / "root") == ["yes"]


def test_stop_under_load_loses_no_event_that_was_acknowledged(tmp_path) -> None:
    acknowledged: list[str] = []
    with commanding(tmp_path) as served:
        assert served.post("/command", DEFINE.encode())[0] == 200
        clients = [
            threading.Thread(target=store_until_the_end, args=(served, number, acknowledged))
            for number in range(4)
        ]
        for client in clients:
            client.start()
        await_that(lambda: len(acknowledged) >= 100, "events that were acknowledged")
        await_that(lambda: len(served.server.store_reactor) == 4, "clients that are handed over")
    for client in clients:
        client.join()
    stored = names_stored(tmp_path)
    assert len(stored) == len({*stored})
    assert {*acknowledged} <= {*stored}
    # What was under way at the end is at most one of each client.
    assert len(stored) <= len(acknowledged) + len(clients)


def store_until_the_end(served: Served, number: int, acknowledged: list[str]) -> None:
    with connected(served) as client:
        for name in range(1_000_000):
            if not is_stored(client, f"{number}-{name}"):
                return
            acknowledged.append(f"{number}-{name}")


def is_stored(client: StoringClient, name: str) -> bool:
    try:
        return client.ask(store(name)).code == 200
    except (OSError, ValueError):
        return False


def test_event_that_waited_too_long_is_busy(tmp_path) -> None:
    with commanding(tmp_path) as served, storing(served) as client:
        assert served.post("/command", DEFINE.encode())[0] == 200
        assert client.ask(store("first")).code == 200
        event_store = served.server.handler.events._store
        assert isinstance(event_store, EventStore)
        writer = event_store._writer
        options = writer._options = replace(writer._options, wait_max=timedelta(minutes=5))
        goes_on = threading.Event()
        holding = threading.Thread(target=lambda: writer.call(lambda _: goes_on.wait(300)))
        holding.start()
        client.send(store("second"))
        await_that(lambda: writer._events == 1, "an event that waits")
        writer._options = replace(options, wait_max=timedelta(milliseconds=200))
        (reply,) = client.answers(1)
        goes_on.set()
        holding.join()
        assert (reply.code, reply.headers["Retry-After"]) == (503, "1")
        assert "nothing was stored" in reply.answer.message
        writer._options = options
        assert client.ask(store("third")).code == 200
    assert names_stored(tmp_path) == ["first", "third"]


def test_what_is_stored_is_counted_as_by_a_thread_of_its_own(tmp_path) -> None:
    with commanding(tmp_path) as served, storing(served) as client:
        assert served.post("/command", DEFINE.encode())[0] == 200
        for number in range(5):
            assert client.ask(store(number)).code == 200
        assert served.metric("shardlog_server_events_stored_total") == 5
        assert served.metric("shardlog_server_storing_connections") == 1
        # Those before it was handed over, too, and the DEFINE.
        assert served.metric("shardlog_server_commands_total") == 9
        requests = served.server.handler.figures._requests
        await_that(lambda: requests["command", "200"] == 6, "requests that are counted")
