"""The bounds of a server: each is kept, and who runs into one is told, at no cost to the others."""

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from connectors.serve.answer_slots import AnswerSlots
from connectors.serve.connection import Connection, GoneError
from connectors.serve.settings import Bounds
from storage_core import InvalidRequestError, SystemClock, UnavailableError
from storage_core.protocol import CALLS, RowStream
from tests.log.serve.served import ANSWER_MAX_S, Served, received_of, serving
from tests.log.workbench import Workbench
from tests.waiting import await_that

LIVE = b"GET /health/live HTTP/1.1\r\n\r\n"
LIVE_ONCE = b"GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n"
# More than sockets and their buffers take in of an answer nobody reads.
LARGE = b"x" * 100_000
LARGE_ROWS = 400
HERE = Path(__file__).parent
_RECEIVED_BYTES = 4096


@pytest.fixture(scope="module")
def large(lasting_bench: Workbench) -> Workbench:
    """A stream whose answers fill every buffer on their way."""
    for first in range(0, LARGE_ROWS, 50):
        lasting_bench.append(range(first, first + 50), payload=LARGE)
    lasting_bench.commit()
    return lasting_bench


def test_place_of_a_stalled_client_is_given_to_who_waits(large: Workbench) -> None:
    with (
        serving(large.root, answers=2, stalled_s=0.2, queue_s=60.0, send_s=ANSWER_MAX_S) as served,
        served.stalled("scan", large.name) as first,
        served.stalled("tail", large.name, shard=0) as second,
    ):
        rows = served.rows("read", large.name, columns=("primary",))
        assert rows.num_rows == LARGE_ROWS
        await_that(
            lambda: served.metric("shardlog_server_answers_cut_total") == 1, "one answer is cut"
        )
        # Its answer has no end, so it cannot pass for a whole one; the other one goes on.
        are_whole = [received_of(sock).endswith(b"0\r\n\r\n") for sock in (first, second)]
        assert sorted(are_whole) == [False, True]


def test_what_a_client_takes_over_tls_is_counted_as_it_takes_it() -> None:
    """Else a client that reads on steadily is cut as one that stalls."""
    size, taken = 2**20, 2**18
    with over_tls() as (near, far):
        connection = Connection(near, Bounds(send_s=ANSWER_MAX_S), SystemClock())
        connection.take_over(near)
        sending = threading.Thread(target=sends, args=(connection, size))
        sending.start()
        await_that(lambda: connection.stalled_since_s is not None, "it sends")
        since_s = connection.stalled_since_s
        while taken > 0:
            taken -= len(far.recv(_RECEIVED_BYTES))
        try:
            await_that(lambda: connection.stalled_since_s != since_s, "what was taken is counted")
            assert sending.is_alive(), "not all of it was taken"
        finally:
            connection.cut()
            sending.join()


def sends(connection: Connection, size: int) -> None:
    with suppress(GoneError):
        connection.send([bytes(size)])


@contextmanager
def over_tls() -> Iterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    """Both ends of a connection over TLS for which the system holds few bytes."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(HERE / "certificate.pem", HERE / "key.pem")
    client = ssl.create_default_context(cafile=HERE / "certificate.pem")
    client.check_hostname = False
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as outer:
        outer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
        outer.settimeout(ANSWER_MAX_S)
        outer.connect(listener.getsockname())
        inner, _ = listener.accept()
        inner.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _RECEIVED_BYTES)
        inner.settimeout(ANSWER_MAX_S)
        near = server.wrap_socket(inner, server_side=True, do_handshake_on_connect=False)
        shaking = threading.Thread(target=near.do_handshake)
        shaking.start()
        with near, client.wrap_socket(outer) as far:
            shaking.join()
            yield near, far


def test_client_that_takes_nothing_is_cut_after_its_time(large: Workbench) -> None:
    with (
        serving(large.root, send_s=0.3) as served,
        served.stalled("scan", large.name),
    ):
        await_that(
            lambda: served.metric("shardlog_server_answers_cut_total") == 1, "the answer is cut"
        )
        assert served.metric("shardlog_server_answers") == 0


def test_request_without_a_place_is_told_that_the_server_is_busy(large: Workbench) -> None:
    with (
        serving(large.root, answers=1, stalled_s=ANSWER_MAX_S, queue_s=0.1) as served,
        served.stalled("scan", large.name),
    ):
        error = served.refusal("scan", large.name)
        assert type(error) is UnavailableError
        # What holds no rows needs no place.
        assert served.result("committed", large.name) == {0: LARGE_ROWS}


def test_waiting_clients_take_no_place(large: Workbench) -> None:
    with serving(large.root, answers=1) as served, ExitStack() as stack:
        path = f"/v1/streams/{large.name}/wait?shard=0&address={LARGE_ROWS}&timeout=30"
        for _ in range(8):
            sock = stack.enter_context(served.connected())
            sock.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        await_that(lambda: served.metric("shardlog_server_waits") == 8, "eight wait")
        assert served.rows("read", large.name, columns=("primary",)).num_rows == LARGE_ROWS
        stack.close()
        await_that(lambda: served.metric("shardlog_server_waits") == 0, "nobody waits")


def test_idle_connection_makes_room_for_a_new_one(large: Workbench) -> None:
    with serving(large.root, connections=3, reserved=0) as served, ExitStack() as stack:
        socks = [stack.enter_context(served.connected()) for _ in range(3)]
        assert all(is_answered(sock) for sock in socks)
        # Who was just answered may not be idle yet, and then the new one is refused.
        await_that(
            lambda: served.exchange(LIVE_ONCE).startswith(b"HTTP/1.1 200 "), "one makes room"
        )
        assert sorted(is_answered(sock) for sock in socks) == [False, True, True]


def test_client_whose_body_nobody_wants_makes_room_for_a_new_one(
    large: Workbench, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("a-token-of-some-length")
    with (
        serving(large.root, connections=1, reserved=0, read_tokens=tmp_path / "tokens") as served,
        served.connected() as sock,
    ):
        sock.sendall(b"POST /v1/streams HTTP/1.1\r\nContent-Length: 100000\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 401 ")
        await_that(lambda: served.exchange(LIVE_ONCE).startswith(b"HTTP/1.1 200 "), "it makes room")


PADDED = b"PING" + b" " * 199_996
PADDED_HEAD = b"POST /command HTTP/1.1\r\nContent-Length: 200000\r\n\r\n"


def test_bodies_that_hold_too_much_together_are_told_to_try_again(large: Workbench) -> None:
    with (
        serving(large.root, bodies_bytes=300_000, stalled_s=ANSWER_MAX_S) as served,
        served.connected() as sock,
    ):
        sock.sendall(PADDED_HEAD + PADDED[:100])
        await_that(
            lambda: served.metric("shardlog_server_body_bytes") == len(PADDED), "it is let in"
        )
        for path in ("/command", "/v1/streams"):
            code, text = served.post(path, PADDED)
            assert code == 503
            assert "requests hold all the memory there is for them" in text
        # A small one needs no room, on the same connection.
        assert served.post("/command", b"PING") == (200, "PONG\n")
        sock.sendall(PADDED[100:])
        assert sock.recv(12) == b"HTTP/1.1 200"
        await_that(lambda: served.metric("shardlog_server_body_bytes") == 0, "it is given back")
        assert served.post("/command", PADDED) == (200, "PONG\n")


def test_room_of_a_body_that_does_not_come_is_given_to_another_one(large: Workbench) -> None:
    with (
        serving(large.root, bodies_bytes=300_000, stalled_s=0.1) as served,
        served.connected() as sock,
    ):
        sock.sendall(PADDED_HEAD + PADDED[:100])
        await_that(
            lambda: served.metric("shardlog_server_body_bytes") == len(PADDED), "it is let in"
        )
        await_that(lambda: served.post("/command", PADDED) == (200, "PONG\n"), "another comes in")
        assert received_of(sock) == b""


def is_answered(sock: socket.socket) -> bool:
    """Ask on a connection; return whether it still goes on."""
    try:
        sock.sendall(LIVE)
        return bool(sock.recv(1000))
    except ConnectionError:
        return False


def test_connection_beyond_those_that_are_answered_is_refused(large: Workbench) -> None:
    with (
        serving(large.root, connections=1, reserved=0, stalled_s=ANSWER_MAX_S) as served,
        served.stalled("scan", large.name),
    ):
        assert served.exchange(LIVE).startswith(b"HTTP/1.1 503 ")


def test_idle_connection_ends_after_its_time(large: Workbench) -> None:
    with serving(large.root, idle_s=0.2) as served, served.connected() as sock:
        assert received_of(sock) == b""


def test_answer_of_too_many_rows_ends_with_an_error(large: Workbench) -> None:
    with serving(large.root, rows=LARGE_ROWS - 1) as served:
        with pytest.raises(InvalidRequestError, match=f"more than {LARGE_ROWS - 1} rows"):
            served.rows("scan", large.name, columns=("primary",))
        assert served.rows("read", large.name, end=9).num_rows == 10


def test_answer_that_takes_too_long_ends_with_an_error(large: Workbench) -> None:
    with (
        serving(large.root, answer_s=0.0) as served,
        pytest.raises(UnavailableError, match="took more than 0 s"),
    ):
        served.rows("scan", large.name)


def test_read_that_gathers_too_much_is_refused(large: Workbench) -> None:
    with serving(large.root, read_bytes=2**20) as served:
        refusal = served.refusal("read", large.name)
        assert type(refusal) is InvalidRequestError
        # Not the client's own bound, `read_bytes_max`.
        assert "--read-mib-max" in str(refusal)
        assert "read_bytes_max" not in str(refusal)
        assert served.rows("scan", large.name).num_rows == LARGE_ROWS
        error = served.refusal("scan_shard", large.name, shard=0, order="primary")
        assert "bytes" in str(error)


def test_reads_that_hold_too_much_together_are_told_to_try_again(large: Workbench) -> None:
    with (
        serving(large.root, held_bytes=2**20, queue_s=0.1, stalled_s=ANSWER_MAX_S) as served,
        served.stalled("read", large.name),
    ):
        assert served.metric("shardlog_server_held_bytes") > LARGE_ROWS * len(LARGE)
        assert type(served.refusal("read", large.name)) is UnavailableError
        assert served.rows("scan", large.name, columns=("primary",)).num_rows == LARGE_ROWS


def test_large_reads_are_made_one_after_the_other(large: Workbench) -> None:
    bounds: dict[str, Any] = {"small_bytes": 1000, "held_bytes": 2**26, "read_bytes": 2**26}
    with serving(large.root, queue_s=ANSWER_MAX_S, **bounds) as served:
        numbers: list[int] = []

        def ask() -> None:
            own = Served(served.server, {})
            numbers.append(own.rows("read", large.name, columns=("primary", "payload")).num_rows)
            own.close()

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert numbers == [LARGE_ROWS] * 4
        await_that(lambda: served.metric("shardlog_server_held_bytes") == 0, "all is given back")


def test_large_read_holds_its_bytes_before_it_has_them() -> None:
    slots = AnswerSlots(1, Bounds(read_bytes=100, held_bytes=250, queue_s=0.0), SystemClock())
    with slots.reserving() as keep, slots.reserving():
        with pytest.raises(UnavailableError, match="hold 200 bytes"), slots.reserving():
            pass
        keep(10)
        with slots.reserving():
            assert slots.held_bytes == 210
    assert slots.held_bytes == 0


def test_streams_beyond_those_that_may_be_open_take_turns(make_bench) -> None:
    benches = [make_bench() for _ in range(4)]
    for number, bench in enumerate(benches):
        bench.keep([number])
    with serving(benches[0].root, streams=2) as served:
        for number, bench in enumerate([*benches, *benches]):
            rows = served.rows("read", bench.name)
            assert rows.column("primary").to_pylist() == [number % 4]
            assert served.metric("shardlog_server_streams") <= 2


def test_stream_whose_files_do_not_answer_keeps_no_other_waiting(bench: Workbench) -> None:
    bench.keep([1])
    silent = bench.root / "silent"
    silent.mkdir()
    os.mkfifo(silent / "stream.json")
    request = f"GET {CALLS['committed'].path('silent')} HTTP/1.1\r\nConnection: close\r\n\r\n"
    written: list[int] = []

    def is_read() -> bool:
        with suppress(OSError):
            written.append(os.open(silent / "stream.json", os.O_WRONLY | os.O_NONBLOCK))
        return bool(written)

    with serving(bench.root) as served:
        asks = threading.Thread(target=served.exchange, args=(request.encode(),))
        asks.start()
        await_that(is_read, "the server reads the silent file")
        try:
            assert served.result("committed", bench.name) == {0: 1}
        finally:
            os.close(written[0])
            asks.join()


def test_answer_about_ids_without_rows_is_bounded_in_time(bench: Workbench) -> None:
    bench.keep([1])
    with serving(bench.root, answer_s=0.0) as served, pytest.raises(UnavailableError, match="took"):
        served.rows("records", bench.name, ids=range(10, 10_000))


def test_records_of_many_ids_come_id_by_id(bench: Workbench) -> None:
    wanted = [7, 90, 3, 170]
    for secondary in wanted:
        bench.keep([1, 2], secondary=secondary)
    with serving(bench.root) as served:
        rows = served.rows("records", bench.name, ids=[*range(199, -1, -1), 7])
    assert rows.column("secondary").to_pylist() == [3, 3, 7, 7, 90, 90, 170, 170]


def test_many_clients_at_once_get_each_its_own_rows(large: Workbench) -> None:
    faults: list[str] = []

    def ask(served: Served, number: int) -> None:
        other = Served(served.server, {})
        try:
            for primary in range(number, LARGE_ROWS, 40):
                rows = other.rows("read", large.name, start=primary, end=primary)
                if rows.column("primary").to_pylist() != [primary]:
                    faults.append(f"{primary}: {rows}")
        finally:
            other.close()

    with serving(large.root, answers=4) as served:
        threads = [threading.Thread(target=ask, args=(served, number)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(ANSWER_MAX_S)
    assert faults == []


def test_server_that_ends_lets_answers_end_and_idle_clients_go(large: Workbench) -> None:
    with serving(large.root, stop_s=ANSWER_MAX_S) as served, served.connected() as idle:
        answer = served.ask("scan", large.name)
        rows = RowStream(answer)
        next(rows)
        closing = threading.Thread(target=served.server.close)
        closing.start()
        assert idle.recv(1) == b""
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((served.server.host, served.server.port), ANSWER_MAX_S)
        assert sum(batch.num_rows for batch in rows) < LARGE_ROWS
        assert rows.is_whole
        answer.read()
        closing.join(ANSWER_MAX_S)
        assert not closing.is_alive()


def test_server_that_ends_cuts_what_does_not_end(large: Workbench) -> None:
    with (
        serving(large.root, stop_s=0.1) as served,
        served.stalled("scan", large.name) as sock,
    ):
        served.server.close()
        assert not received_of(sock).endswith(b"0\r\n\r\n")
