"""A server that is short of connections, answers or open files: whose shortage it is, is told."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from storage_core import StreamReader, UnavailableError
from tests.log.serve.served import ANSWER_MAX_S, Served, received_of, serving
from tests.log.serve.serving_process import server_process
from tests.log.served import AT_ONCE
from tests.log.workbench import Workbench
from tests.waiting import await_that

GETS = "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LARGE_ROWS = 400


@pytest.fixture(scope="module")
def large(lasting_bench: Workbench) -> Workbench:
    """A stream whose answers fill every buffer on their way."""
    for first in range(0, LARGE_ROWS, 50):
        lasting_bench.append(range(first, first + 50), payload=b"x" * 100_000)
    lasting_bench.commit()
    return lasting_bench


@contextmanager
def taking_a_little(sock: socket.socket, pause_s: float = 0.01) -> Iterator[None]:
    """Take some bytes at a time: never none for long, and never many."""
    is_over = threading.Event()

    def take() -> None:
        while not is_over.wait(pause_s) and sock.recv(65_536):
            pass

    taking = threading.Thread(target=take)
    taking.start()
    try:
        yield
    finally:
        is_over.set()
        taking.join()


def status_of(served: Served, path: str) -> int:
    return int(served.exchange(GETS.format(path).encode()).split()[1])


def test_health_and_metrics_are_answered_while_all_connections_are_taken(large: Workbench) -> None:
    stays: dict[str, Any] = {"stalled_s": ANSWER_MAX_S, "send_s": ANSWER_MAX_S}
    with (
        serving(large.root, connections=2, **stays) as served,
        served.stalled("scan", large.name),
        served.stalled("scan", large.name),
    ):
        for path in ("/health/live", "/health/ready", "/metrics", "/version"):
            assert status_of(served, path) == 200
        # What is kept for these is for no call.
        assert status_of(served, "/v1/streams") == 503


def test_client_too_slow_over_its_whole_answer_gives_its_place_to_who_waits(
    large: Workbench,
) -> None:
    slow: dict[str, Any] = {"slow_s": 0.2, "slow_bytes_s": 10**12, "stalled_s": ANSWER_MAX_S}
    with (
        serving(large.root, answers=1, queue_s=ANSWER_MAX_S, send_s=ANSWER_MAX_S, **slow) as served,
        served.stalled("scan", large.name) as sock,
    ):
        with taking_a_little(sock):
            rows = served.rows("read", large.name, columns=("primary",))
        assert rows.num_rows == LARGE_ROWS
        assert not received_of(sock).endswith(b"0\r\n\r\n")


def test_large_batch_is_bounded_in_time_to_its_last_byte(large: Workbench) -> None:
    bound_s = 1.0
    while not (received := received_within(large, bound_s)):
        # A busy machine has not even begun to answer by then.
        bound_s *= 2
        assert bound_s < ANSWER_MAX_S, "no answer begins"
    assert not received.endswith(b"0\r\n\r\n")


def received_within(large: Workbench, bound_s: float) -> bytes:
    """Return the end of a bounded answer that is taken slowly; nothing of one that never began."""
    with serving(large.root, answer_s=bound_s, send_s=2 * bound_s) as served, ExitStack() as stack:
        try:
            sock = stack.enter_context(served.stalled("read", large.name))
        except (AssertionError, ConnectionError):
            return b""
        # Some MB in a bound: far from stalled.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        with taking_a_little(sock, pause_s=bound_s / 100):
            await_that(
                lambda: served.metric("shardlog_server_answers") == 0, "the answer comes to an end"
            )
        return b"begun" + received_of(sock)


def test_slow_client_keeps_its_place_where_nobody_waits(large: Workbench) -> None:
    with (
        serving(large.root, slow_s=0.0, slow_bytes_s=10**12) as served,
        served.stalled("scan", large.name) as sock,
    ):
        assert served.rows("read", large.name, columns=("primary",)).num_rows == LARGE_ROWS
        assert received_of(sock).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("files_left", [6, 20])
def test_open_files_that_a_server_lacks_are_told_as_its_own(bench: Workbench, files_left) -> None:
    bench.keep([1])
    with (
        server_process(bench.root, files_left=files_left) as process,
        pytest.raises(UnavailableError, match=r"the server .*open files"),
    ):
        StreamReader.open(f"shardlog://{process.address}", bench.name, server=AT_ONCE).read()
