"""What clients leave behind that read nothing, and those that come and go: nothing."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.events.front_ends.doors import commanding
from tests.events.front_ends.storing import request_of
from tests.events.subscriptions.raw_clients import REQUESTS, TLS, asking
from tests.events.subscriptions.test_live_sender import FEW_BYTES, LARGE, define, store
from tests.log.serve.served import Served
from tests.waiting import await_that

WITH_TLS_AND_WITHOUT = pytest.mark.parametrize("tls", [{}, TLS], ids=["plain", "tls"])
DEFINES = request_of('DEFINE order FIELDS { n: "int", t: "string" }'), b"defined"
PINGS = request_of("PING"), b"PONG"
STORES = request_of('STORE order FOR a PAYLOAD { "n": 1, "t": "" }') * 5, b"stored at"
SUBSCRIBES = [(request, b"caught_up") for request in REQUESTS.values()]
WAVES, CLIENTS = 2, 10
# So many come and go by themselves; each wave has many more.
FEW_HANDLES = 8


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with ten megabytes of events, more than any socket holds."""
    root = tmp_path_factory.mktemp("slow")
    with commanding(root) as served:
        define(served)
        for first in range(0, 200, 10):
            store(served, *range(first, first + 10), text=LARGE)
    return root


@WITH_TLS_AND_WITHOUT
@pytest.mark.parametrize("door", list(REQUESTS))
def test_subscriber_that_reads_nothing_is_ended_and_leaves_nothing(
    large: Path, door: str, tls: Mapping[str, Any]
) -> None:
    with (
        commanding(large, send_s=1.0, **tls) as served,
        asking(served, REQUESTS[door], b"context_id", FEW_BYTES),
    ):
        await_nothing_left(served)


@WITH_TLS_AND_WITHOUT
def test_clients_that_come_and_go_leave_nothing(tmp_path: Path, tls: Mapping[str, Any]) -> None:
    with commanding(tmp_path, **tls) as served:
        with asking(served, *DEFINES):
            pass
        come_and_go(served)
        most = handles() + FEW_HANDLES
        for _ in range(WAVES):
            come_and_go(served)
            await_that(lambda: handles() <= most, lambda: f"{handles()} handles, {most} at most")


def come_and_go(served: Served) -> None:
    """Have a wave of clients of all kinds, all of them there at once."""
    with ExitStack() as wave:
        for request, end in (PINGS, STORES, *SUBSCRIBES):
            for _ in range(CLIENTS):
                wave.enter_context(asking(served, request, end))
    await_nothing_left(served)


def await_nothing_left(served: Served) -> None:
    server = served.server
    await_that(lambda: not server.handler.subscription_slots.taken, "no place is taken")
    await_that(lambda: not server._remaining(), "all connections are closed")
    await_that(lambda: not threads_of_clients(), "their threads have ended")


def threads_of_clients() -> list[str]:
    names = ("shardlog-client", "shardlog-subscription")
    return [thread.name for thread in threading.enumerate() if thread.name in names]


def handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
