"""Subscribers that follow are told by one thread, each of all its events, whoever else is slow."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote
from weakref import ref

import pytest

from connectors.serve.commands.http_subscriptions import HttpSubscriptions
from connectors.serve.commands.live_sender import LiveSender, LiveSubscriber
from connectors.serve.connection import Connection, GoneError
from connectors.serve.settings import Bounds
from storage_core import SystemClock
from tests.events.front_ends.doors import commanding, posted
from tests.events.subscriptions.subscribed import SubscribedBench, follower, without_collector
from tests.log.serve.served import ANSWER_MAX_S, Served
from tests.waiting import await_that

SUBSCRIBERS = 20
EVENTS = 30
# More than sockets hold, by far.
LARGE = "x" * 50_000
MANY = 400
FEW_BYTES = 4096


class Subscriber:
    """A client that is told events; it notes them, and the id of the last."""

    def __init__(self, sock: socket.socket, command: str, version: str) -> None:
        self._file = sock.makefile("rb")
        self.last_id = ""
        head = f"GET /subscribe?command={quote(command)} HTTP/{version}\r\nHost: 127.0.0.1\r\n\r\n"
        sock.sendall(head.encode())

    def next(self, kind: str) -> dict[str, object]:
        """Return the next event of a kind; other kinds are passed over."""
        while (event := self._event()).get("event") != kind:
            assert event.get("event") != "failed", event
        said: dict[str, object] = json.loads(event["data"])
        return said

    def numbers(self, count: int) -> list[object]:
        return [self.next("row")["n"] for _ in range(count)]

    def ends_whole(self) -> bool:
        """Pass over what comes; tell whether the last chunk of the answer is among it."""
        while line := self._file.readline():
            if line == b"0\r\n":
                return True
        return False

    def close(self) -> None:
        self._file.close()

    def _event(self) -> dict[str, str]:
        event: dict[str, str] = {}
        while line := self._file.readline():
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if value and name:
                event[name] = value
            elif event.get("event") is not None:
                self.last_id = event.get("id", self.last_id)
                return event
        message = "the server has ended the connection"
        raise ConnectionError(message)


@contextmanager
def subscribed(
    served: Served,
    command: str = "SUBSCRIBE order",
    received_bytes: int | None = None,
    version: str = "1.1",
) -> Iterator[Subscriber]:
    """A subscriber; the system holds few bytes for one that is told how many."""
    with served.connected(received_bytes) as sock:
        subscriber = Subscriber(sock, command, version)
        try:
            yield subscriber
        finally:
            subscriber.close()


def store(served: Served, *numbers: int, text: str = "", event_type: str = "order") -> None:
    lines = [
        f"STORE {event_type} FOR ann PAYLOAD {json.dumps({'n': number, 't': text})}"
        for number in numbers
    ]
    assert posted(served, "\n".join(lines))[0] == 200


def define(served: Served, event_type: str = "order") -> None:
    text = f'DEFINE {event_type} FIELDS {{ n: "int", t: "string" }}'
    assert posted(served, text)[0] == 200


@pytest.fixture(scope="module")
def defined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose store has a type, which many scenarios store events of.

    It waits for who takes nothing as long as a busy machine needs to store all of a scenario.
    """
    with commanding(tmp_path_factory.mktemp("live"), send_s=ANSWER_MAX_S) as served:
        define(served)
        yield served


def sender_of(served: Served) -> LiveSender:
    front = served.server.handler._fronts["subscribe",]
    assert isinstance(front, HttpSubscriptions)
    return front.live_sender


def await_followers(served: Served, count: int) -> None:
    await_that(lambda: len(sender_of(served)) == count, "so many follow")


def threads_called(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_subscribers_that_follow_are_told_by_one_thread(defined: Served, version: str) -> None:
    with ExitStack() as stack:
        subscribers = [
            stack.enter_context(
                subscribed(defined, f"SUBSCRIBE order WHERE n >= {number}", version=version)
            )
            for number in range(SUBSCRIBERS)
        ]
        await_followers(defined, SUBSCRIBERS)
        assert threads_called("shardlog-live") == 1
        for number in range(EVENTS):
            store(defined, number)
        for number, subscriber in enumerate(subscribers):
            assert subscriber.numbers(EVENTS - number) == [*range(number, EVENTS)]
            assert subscriber.next("checkpoint")["checkpoint"] == subscriber.last_id
    await_followers(defined, 0)
    await_that(lambda: not threads_called("shardlog-live"), "its thread ends with the last")


def test_slow_subscriber_holds_up_nobody_and_is_told_all(defined: Served) -> None:
    with (
        subscribed(defined, received_bytes=FEW_BYTES) as slow,
        subscribed(defined) as quick,
    ):
        await_followers(defined, 2)
        for first in range(0, MANY, 10):
            store(defined, *range(first, first + 10), text=LARGE)
            assert quick.numbers(10) == [*range(first, first + 10)]
        # It is told by a thread of its own meanwhile, which waits for it.
        await_followers(defined, 1)
        assert slow.numbers(MANY) == [*range(MANY)]
        await_followers(defined, 2)
        store(defined, MANY)
        assert (slow.numbers(1), quick.numbers(1)) == ([MANY], [MANY])


def test_subscriber_that_goes_away_gives_its_place(defined: Served) -> None:
    with subscribed(defined):
        await_followers(defined, 1)
    await_followers(defined, 0)
    await_that(lambda: defined.metric("shardlog_server_subscriptions") == 0, "its place is free")


def is_seen_gone(subscriber: LiveSubscriber) -> bool:
    subscriber.send_now()
    try:
        subscriber.await_back(0)
    except GoneError:
        return True
    return False


def test_what_was_made_for_who_went_away_is_freed_at_once(bench: SubscribedBench) -> None:
    near, far = socket.socketpair()
    subscription = follower(bench).subscription
    connection = Connection(near, Bounds(), SystemClock())
    held = LiveSubscriber(subscription, connection, lambda _: LARGE.encode())
    made = ref(held)
    with near, without_collector():
        far.close()
        held.give()
        bench.store("order", "ann", amount=1)
        await_that(partial(is_seen_gone, held), "its client is seen to be gone")
        del held
        assert made() is None


def test_new_type_joins_those_that_follow_all(defined: Served) -> None:
    with subscribed(defined, "SUBSCRIBE *") as subscriber:
        await_followers(defined, 1)
        define(defined, "later")
        store(defined, 7, event_type="later")
        assert subscriber.next("row")["event_type"] == "later"


def test_subscriber_that_follows_is_ended_with_the_server(tmp_path: Path) -> None:
    with commanding(tmp_path) as served, subscribed(served, "SUBSCRIBE *") as subscriber:
        await_followers(served, 1)
        served.server.close()
        assert subscriber.ends_whole()


def test_answer_whose_time_is_over_ends_whole(tmp_path: Path) -> None:
    with (
        commanding(tmp_path, answer_s=0.5) as served,
        subscribed(served, "SUBSCRIBE *") as subscriber,
    ):
        assert subscriber.ends_whole()
