"""Goal: subscribers are told each event once, and SHOW has each, though the server is killed often.

Method: clients store over HTTP while a subscriber reads server-sent events, and notes rows with
their ids, and somebody asks SHOW again and again, whose answers only grow. SIGKILL ends the server
at a random place; the subscriber resumes at the next one by Last-Event-ID.
"""

import json
import signal
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

from storage_core import SystemClock
from storage_core.roots import make_root
from tests.events.front_ends.test_killed_server import (
    CLIENTS,
    EVENTS,
    Clients,
    await_acknowledged,
)
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.log.serve.served import ANSWER_MAX_S
from tests.log.serve.serving_process import server_process
from tests.thin import rounds
from tests.waiting import await_that
from typed_events.event_store import EventStore

DEFINE = 'DEFINE order FIELDS { name: "string" }'
ROUNDS = rounds("SHARDLOG_FAULT_EVENTS", few=3, many=100)
_PAUSE_S = 0.02
_TARGET = f"/subscribe?command={quote('SUBSCRIBE order FROM START')}"
_clock = SystemClock()


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


class Shows:
    """Asks SHOW of one server after the other; what was shown once stays, with more behind it."""

    def __init__(self) -> None:
        self.address = ""
        self.names: list[str] = []
        self.answers = 0
        self.wrong: list[str] = []
        self._ending = Event()
        self._thread = Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(ANSWER_MAX_S)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                code, body = posted(self.address, "SHOW mine")
            except (OSError, HTTPException, ValueError):
                # It was killed, also in the midst of its answer.
                _clock.sleep(_PAUSE_S)
                continue
            names = [row["name"] for row in body["rows"]]
            if code == 200 and names[: len(self.names)] == self.names:
                self.names, self.answers = names, self.answers + 1
            elif code != 503:
                self.wrong.append(f"{code}: {body['message']}: {len(names)}, {len(self.names)}")


def posted(address: str, command: str) -> tuple[int, Any]:
    """Return status and answer of a command."""
    connection = HTTPConnection(address, timeout=ANSWER_MAX_S)
    try:
        connection.request("POST", "/command", command.encode(), {"Accept": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
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


def test_subscriber_and_show_have_each_event_once_over_kills(tmp_path: Path) -> None:
    make_root(tmp_path)
    clients, subscriber, shows = Clients(), Subscriber(), Shows()
    total, seed = CLIENTS * EVENTS, fault_seed()
    with naming_seed(seed):
        chance = Random(seed)
        kills = sorted(chance.randrange(total) for _ in range(ROUNDS))
        try:
            for least in (*kills, total):
                with server_process(tmp_path, is_writable=True) as process:
                    if not clients.address:
                        assert posted(process.address, DEFINE)[0] == 200
                        assert posted(process.address, "REMEMBER QUERY order AS mine")[0] == 200
                        clients.address = shows.address = process.address
                        clients.start()
                        shows.start()
                    clients.address = shows.address = process.address
                    subscriber.read(process.address, least)
                    if least < total:
                        process.signal(signal.SIGKILL)
                        continue
                    await_acknowledged(clients, total)
                    await_that(
                        lambda: len(shows.names) >= total or bool(shows.wrong), "all is shown"
                    )
                    shows.end()
        finally:
            clients.end()
            shows.end()
        assert clients.wrong == []
        assert shows.wrong == []
        assert len(subscriber.names) == total
        assert subscriber.names == in_order(tmp_path) == shows.names


def in_order(root: Path) -> list[str]:
    """Return what the events are called, in the order of their positions."""
    with EventStore.open(root) as store:
        answer = store.execute("QUERY order")
        names: list[str] = [row["name"] for batch in answer.batches for row in batch.to_pylist()]
        return names
