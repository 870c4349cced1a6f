"""Goal: kill -9 of the server under clients that store; each acknowledged event is there, once.

Method: clients store with idempotency keys, over HTTP, some on a connection that they keep, and
send again what they were not told the end of. The server is killed in the midst, and another
process goes on over the same root.
"""

import json
import signal
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from storage_core import StreamReader, SystemClock
from storage_core.avro import AvroSchema, decode_batch
from storage_core.roots import make_root
from tests.log.serve.served import ANSWER_MAX_S
from tests.log.serve.serving_process import server_process
from tests.waiting import await_that

CLIENTS = 8
EVENTS = 40
ROUNDS = 3
_PAUSE_S = 0.02
_clock = SystemClock()


class Clients:
    """Clients that store until each of their events was acknowledged."""

    def __init__(self) -> None:
        self.address = ""
        self.acknowledged: list[str] = []
        self.wrong: list[str] = []
        self._lock = Lock()
        # The connections of clients; those of even numbers keep theirs.
        self._connections: dict[int, HTTPConnection] = {}
        self._ending = Event()
        self._threads = [Thread(target=self._run, args=(number,)) for number in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(ANSWER_MAX_S)

    def _run(self, client: int) -> None:
        for number in range(EVENTS):
            name = f"{client}-{number}"
            payload = json.dumps({"name": name})
            command = f'STORE order FOR c-{client} PAYLOAD {payload} IDEMPOTENCY "{name}"'
            while not self._ending.is_set():
                code, body = self._posted(client, command)
                if code == 200:
                    with self._lock:
                        self.acknowledged.append(name)
                    break
                if code not in (0, 503):
                    self.wrong.append(body)
                    return
                _clock.sleep(_PAUSE_S)
        self._leave(client)

    def _posted(self, client: int, command: str) -> tuple[int, str]:
        """Return status and body; 0 where there is no answer."""
        connection = self._connections.get(client) or HTTPConnection(
            self.address, timeout=ANSWER_MAX_S
        )
        self._connections[client] = connection
        try:
            connection.request("POST", "/command", command.encode())
            answer = connection.getresponse()
            body = answer.read().decode()
        except (OSError, HTTPException):
            self._leave(client)
            return 0, ""
        if client % 2:
            self._leave(client)
        return answer.status, body

    def _leave(self, client: int) -> None:
        connection = self._connections.pop(client, None)
        if connection is not None:
            connection.close()


def test_acknowledged_events_are_there_once_after_kills(tmp_path) -> None:
    make_root(tmp_path)
    clients = Clients()
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
                if number < ROUNDS:
                    least = (number + 1) * CLIENTS * EVENTS // (ROUNDS + 2)
                    await_acknowledged(clients, least)
                    process.signal(signal.SIGKILL)
                else:
                    await_acknowledged(clients, CLIENTS * EVENTS)
    finally:
        clients.end()
    assert clients.wrong == []
    assert Counter(names_stored(tmp_path)) == Counter(clients.acknowledged)
    assert len({*clients.acknowledged}) == CLIENTS * EVENTS


def await_acknowledged(clients: Clients, count: int) -> None:
    await_that(
        lambda: len(clients.acknowledged) >= count or bool(clients.wrong),
        lambda: f"{len(clients.acknowledged)} of {count} events are acknowledged",
    )


def names_stored(root: Path) -> list[str]:
    """Return what the events that are stored are called."""
    with StreamReader.open(root, "order") as reader:
        rows = reader.read()
        (schema,) = [AvroSchema.stored(entry.text) for entry in reader.schemas()]
        bodies = rows.column("payload").combine_chunks()
        names: list[Any] = decode_batch(bodies, schema, starts=10).table.column("name").to_pylist()
        return names
