"""`GET /ws`, by the client of another library: commands, subscriptions, and how it ends."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.events.front_ends.doors import commanding
from tests.log.serve.served import ANSWER_MAX_S, Served
from tests.waiting import await_that

READ, WRITE = "read-token-of-tests", "write-token-of-tests"
DEFINE = 'DEFINE order FIELDS { amount: "int" }'
HERE = Path(__file__).parents[2] / "log" / "serve"


def stored(amount: int) -> str:
    return f'STORE order FOR c-1 PAYLOAD {{"amount": {amount}}}'


class Client:
    """A WebSocket to a server, and what it says."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def ask(self, text: str) -> dict[str, Any]:
        """Return the answer to a message; frames of subscriptions before it are passed over."""
        self.socket.send(text)
        return next(one for one in self.messages() if "status" in one and "event" not in one)

    def messages(self) -> Iterator[dict[str, Any]]:
        while True:
            yield json.loads(self.socket.recv(ANSWER_MAX_S))

    def rows(self, count: int) -> list[tuple[int, int]]:
        """Return of the next rows the subscription, and the amount."""
        rows: list[tuple[int, int]] = []
        for message in self.messages():
            if message.get("event") == "row":
                rows.append((message["subscription"], message["row"]["amount"]))
            if len(rows) == count:
                return rows
        raise AssertionError

    def until(self, event: str) -> dict[str, Any]:
        return next(one for one in self.messages() if one.get("event") == event)

    def ended_by(self) -> tuple[int, str]:
        """Return the code and the reason by which the server closes."""
        try:
            while True:
                self.socket.recv(ANSWER_MAX_S)
        except ConnectionClosed as closed:
            if closed.rcvd is None:
                raise
            return closed.rcvd.code, closed.rcvd.reason


@contextmanager
def client_of(served: Served, **headers: str) -> Iterator[Client]:
    url = served.server.url.replace("http", "ws", 1)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with connect(
        f"{url}/ws", additional_headers=named, open_timeout=ANSWER_MAX_S, compression=None
    ) as socket:
        yield Client(socket)


def test_a_message_is_a_command_and_its_answer_the_json_of_post(served) -> None:
    with client_of(served) as client:
        assert client.ask("PING") == {"status": "OK", "message": "PONG", "rows": [], "count": 0}
        assert client.ask("PING; PING")["status"] == "BadRequest"
        assert client.ask("DESCRIBE nothing")["status"] == "NotFound"
        assert client.ask(stored(5))["status"] == "OK"
        drawn = client.ask("PLOT COUNT OF order")
        assert (drawn["plot"]["y"], drawn["count"]) == (["count"], 1)
        assert client.ask("UNSUBSCRIBE 1")["status"] == "NotFound"


def test_a_large_answer_is_one_message_in_fragments(tmp_path) -> None:
    with commanding(tmp_path) as served, client_of(served) as client:
        client.ask(DEFINE)
        stores = "; ".join(stored(n) for n in range(3_000))
        assert client.ask(f"BATCH [ {stores} ]")["status"] == "OK"
        answer = client.ask("QUERY order")
        assert answer["count"] == 3_000
        assert [row["amount"] for row in answer["rows"]] == [*range(3_000)]


def test_subscriptions_of_one_socket_are_told_apart_and_each_ends_by_its_number(tmp_path) -> None:
    with commanding(tmp_path) as served, client_of(served) as client:
        client.ask(DEFINE)
        client.ask(stored(1))
        assert client.ask("SUBSCRIBE order FROM START")["subscription"] == 1
        assert client.rows(1) == [(1, 1)]
        client.until("caught_up")
        assert client.ask("SUBSCRIBE order WHERE amount > 5")["subscription"] == 2
        client.until("caught_up")
        served.post("/command", f"{stored(3)}\n{stored(7)}".encode())
        assert sorted(client.rows(3)) == [(1, 3), (1, 7), (2, 7)]
        assert client.ask("UNSUBSCRIBE 1")["status"] == "OK"
        served.post("/command", stored(8).encode())
        assert client.rows(1) == [(2, 8)]
        assert client.ask("SUBSCRIBE nothing")["status"] == "NotFound"
        assert client.ask("SUBSCRIBE order FROM START")["subscription"] == 3


def test_subscription_resumed_from_its_checkpoint_misses_and_doubles_nothing(tmp_path) -> None:
    with commanding(tmp_path) as served:
        with client_of(served) as client:
            client.ask(DEFINE)
            for amount in range(4):
                client.ask(stored(amount))
            client.ask("SUBSCRIBE order FROM START")
            second = [next(m for m in client.messages() if m.get("event") == "row") for _ in "ab"][
                1
            ]
        with client_of(served) as client:
            client.ask(f'SUBSCRIBE order FROM "{second["checkpoint"]}"')
            assert client.rows(2) == [(1, 2), (1, 3)]


def test_token_comes_in_the_head_or_as_the_first_message(tmp_path) -> None:
    for name, token in (("read", READ), ("write", WRITE)):
        (tmp_path / name).write_text(f"{token}\n")
    tokens = {"read_tokens": tmp_path / "read", "write_tokens": tmp_path / "write"}
    with commanding(tmp_path / "root", **tokens) as served:
        with client_of(served, Authorization=f"Bearer {WRITE}") as client:
            assert client.ask(DEFINE)["status"] == "OK"
        with client_of(served) as client:
            assert client.ask(f"AUTH {READ}")["status"] == "OK"
            assert client.ask("LIST TYPES")["count"] == 1
            refused = client.ask(stored(1))
            assert (refused["status"], "write" in refused["message"]) == ("BadRequest", True)
            assert client.ask("PING")["status"] == "OK"
        for first in ("PING", f"AUTH {READ}x"):
            with client_of(served) as client:
                assert client.ask(first)["status"] == "BadRequest"
                assert client.ended_by()[0] == 1008
        with pytest.raises(InvalidStatus) as refusal, client_of(served, Authorization="Bearer x"):
            pass
        assert refusal.value.response.status_code == 401


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site"])
def test_page_of_another_origin_has_no_socket(served, name) -> None:
    said = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}[name]
    with pytest.raises(InvalidStatus) as refusal, client_of(served, **{name: said}):
        pass
    assert refusal.value.response.status_code == 403


def test_page_of_the_server_itself_has_one(served) -> None:
    with client_of(served, Origin=f"http://{served.server.address}") as client:
        assert client.ask("PING")["message"] == "PONG"


def test_message_without_room_beside_those_of_others_closes_by_its_code(tmp_path) -> None:
    with commanding(tmp_path / "root", bodies_bytes=100_000) as served:
        with client_of(served) as client:
            assert client.ask("PING" + " " * 80_000)["message"] == "PONG"
            client.socket.send("PING" + " " * 300_000)
            assert client.ended_by()[0] == 1013
        await_that(lambda: served.metric("shardlog_server_body_bytes") == 0, "it is given back")


@pytest.mark.parametrize(
    ("sent", "code"), [(b"PING", 1003), ("x" * (2**20 + 1), 1009), (b"\xff", 1003)]
)
def test_message_that_is_no_command_closes_by_its_code(served, sent, code) -> None:
    with client_of(served) as client:
        client.socket.send(sent)
        assert client.ended_by()[0] == code


@pytest.mark.parametrize(
    ("raw", "code"),
    [(b"\x81\x81\0\0\0\0\xff", 1007), (b"\x83\x80\0\0\0\0", 1002), (b"\x81\x01x", 1002)],
)
def test_frames_that_are_none_close_by_their_code(served, raw, code) -> None:
    with client_of(served) as client:
        client.socket.socket.sendall(raw)
        assert client.ended_by()[0] == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (b"Upgrade: websocket", b"426"),
        (b"Upgrade: h2c\r\nSec-WebSocket-Version: 13", b"426"),
        (b"Upgrade: websocket\r\nSec-WebSocket-Version: 8", b"426"),
        (b"Upgrade: websocket\r\nSec-WebSocket-Version: 13", b"400"),
        (b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA", b"400"),
    ],
)
def test_request_that_asks_for_no_socket_is_refused(served, headers, code) -> None:
    head = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade\r\n"
    answer = served.exchange(head + headers + b"\r\n\r\n")
    assert answer.split()[1] == code
    assert (b"Upgrade: websocket" in answer) is (code == b"426")


def test_ping_of_the_client_is_answered_while_a_subscription_goes_on(served) -> None:
    with client_of(served) as client:
        client.ask("SUBSCRIBE order")
        assert client.socket.ping().wait(ANSWER_MAX_S)


@pytest.mark.parametrize("last", ["SUBSCRIBE order", "PING"])
def test_socket_is_closed_by_name_when_the_server_stops(tmp_path, last) -> None:
    with commanding(tmp_path) as served, client_of(served) as client:
        client.ask(DEFINE)
        client.ask(last)
        served.server.close()
        assert client.ended_by() == (1001, "the server is stopping")


def test_socket_over_tls_does_what_one_without_does(tmp_path) -> None:
    tls = {"tls_certificate": HERE / "certificate.pem", "tls_key": HERE / "key.pem"}
    context = ssl.create_default_context(cafile=HERE / "certificate.pem")
    context.check_hostname = False
    with commanding(tmp_path, **tls) as served:
        url = served.server.url.replace("http", "ws", 1)
        with connect(f"{url}/ws", ssl=context, open_timeout=ANSWER_MAX_S) as socket:
            # The client writes while another thread of it reads: nothing but answers may come.
            assert isinstance(socket.socket, ssl.SSLSocket)
            session = socket.socket.session
            assert session is not None
            assert (socket.socket.version(), session.has_ticket) == ("TLSv1.3", False)
            client = Client(socket)
            client.ask(DEFINE)
            client.ask("SUBSCRIBE order FROM START")
            assert client.ask(stored(1))["status"] == "OK"
            assert client.ask("QUERY order COUNT")["rows"] == [{"count": 1}]


def test_client_that_takes_nothing_is_cut_and_no_other_waits(tmp_path) -> None:
    with commanding(tmp_path, send_s=1.0) as served, client_of(served) as client:
        client.ask(DEFINE)
        # Twenty megabytes, more than the system takes for a client that reads nothing.
        long_name = "c" * 1_000
        stores = "; ".join([stored(1).replace("c-1", long_name)] * 900)
        for _ in range(20):
            assert client.ask(f"BATCH [ {stores} ]")["status"] == "OK"
        with served.connected() as sock:
            sock.sendall(
                b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            command = b"SUBSCRIBE order FROM START"
            sock.sendall(bytes([0x81, 0x80 | len(command), 0, 0, 0, 0]) + command)
            # Some of the events: it is a subscriber, however soon it is cut.
            with sock.makefile("rb", buffering=0) as answer:
                while b"amount" not in (piece := answer.read(1_000)):
                    assert piece, "the server hangs up"
            await_that(lambda: served.metric("shardlog_server_subscriptions") == 0, "its end")
        assert client.ask(stored(1))["status"] == "OK"
