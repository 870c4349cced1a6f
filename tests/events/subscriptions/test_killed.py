"""Goal: a subscriber is told each event once, though the server is killed again and again.

Method: clients store over HTTP while a subscriber reads server-sent events, and notes rows with
their ids. SIGKILL ends the server; the subscriber resumes at the next one by Last-Event-ID.
"""

import json
import signal
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote

from storage_core.roots import make_root
from tests.events.front_ends.test_killed_server import (
    CLIENTS,
    EVENTS,
    Clients,
    await_acknowledged,
)
from tests.log.serve.served import ANSWER_MAX_S
from tests.log.serve.serving_process import server_process
from typed_events.event_store import EventStore

ROUNDS = 3
_TARGET = f"/subscribe?command={quote('SUBSCRIBE order FROM START')}"


class Subscriber:
    """Reads events of one server after the other."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.last_id = ""

    def read(self, address: str, count: int) -> None:
        """Read until so many are known, or the server is gone."""
        connection = HTTPConnection(address, timeout=ANSWER_MAX_S)
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        try:
            connection.request("GET", _TARGET, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            for event in frames_of(iter(answer.readline, b"")):
                self.last_id = event["id"]
                if event["event"] == "row":
                    self.names.append(json.loads(event["data"])["name"])
                if len(self.names) >= count:
                    return
        except (OSError, HTTPException):
            return
        finally:
            connection.close()


def frames_of(lines: Iterator[bytes]) -> Iterator[dict[str, str]]:
    """Yield server-sent events; one that was cut is none."""
    event: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if value and name:
            event[name] = value
        elif "event" in event:
            yield event
            event = {}


def test_subscriber_is_told_each_event_once_over_kills(tmp_path: Path) -> None:
    make_root(tmp_path)
    clients, subscriber = Clients(), Subscriber()
    total = CLIENTS * EVENTS
    try:
        for number in range(ROUNDS + 1):
            with server_process(tmp_path, is_writable=True) as process:
                clients.address = process.address
                if not number:
                    define = HTTPConnection(process.address, timeout=ANSWER_MAX_S)
                    define.request("POST", "/command", b'DEFINE order FIELDS { name: "string" }')
                    assert define.getresponse().status == 200
                    define.close()
                    clients.start()
                least = (number + 1) * total // (ROUNDS + 1)
                subscriber.read(process.address, least)
                if number < ROUNDS:
                    process.signal(signal.SIGKILL)
                else:
                    await_acknowledged(clients, total)
    finally:
        clients.end()
    assert clients.wrong == []
    assert len(subscriber.names) == total
    assert subscriber.names == in_order(tmp_path)


def in_order(root: Path) -> list[str]:
    """Return what the events are called, in the order of their positions."""
    with EventStore.open(root) as store:
        answer = store.execute("QUERY order")
        names: list[str] = [row["name"] for batch in answer.batches for row in batch.to_pylist()]
        return names
