"""What stands before an S3 server, and does to requests what bad stores and networks do.

with S3Proxy(url) as proxy:        all is passed on
    store.through(proxy.url)       the bucket, by way of it
    proxy.drop_conditions()        a file is created whether or not there is one
    proxy.race_conditions()        two who create one file at once both look first, and then write
    proxy.refuse_credentials()     nobody may do anything
    proxy.fail()                   each request is answered by 503
    proxy.stall()                  none is answered
    proxy.cut_uploads()            connections end in the middle of what is uploaded
    proxy.lose_answers(2)          the next two commits are taken, and nobody is told
    proxy.refuse_files()           nobody may read or write the shards' files
    proxy.fail_behind_commit()     as fail(), of the shards' files, once a commit was taken
    proxy.misbehave(7)             some of each of these, and delays, as the chance of a seed has it
    proxy.pass_on()                as at the beginning
    proxy.requests()               what was asked since this was asked last

It is a process of its own: delta-rs keeps the interpreter for itself while it waits for some
answers.
"""

import http.client
import random
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any, Final, Self
from urllib.parse import urlsplit

from storage_core import SystemClock
from storage_core.platform.overriding import override
from tests.children import start_talking_child

_START_MAX_S: Final = 600.0
# The other of two who race comes in this time; a store that refuses no second has lost by then.
_RACE_MAX_S: Final = 60.0
_REFUSED: Final = (
    b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist</Message></Error>"
)
_CONDITION: Final = "if-none-match"
# What a store that misbehaves does to a request, and to a commit; how many of a hundred of each.
_TO_REQUESTS: Final = {"slow": 4, "fail": 3, "cut": 3}
_TO_COMMITS: Final = {"slow": 10, "fail": 10, "cut": 5, "lose answer": 25}
_SLOW_MAX_S: Final = 1.0
_CLOCK: Final = SystemClock()


class S3Proxy:
    """A server before another. One thread at a time."""

    def __init__(self, url: str) -> None:
        self._process, self._control = start_talking_child(_serve, url)
        assert self._control.poll(_START_MAX_S), "the proxy did not start"
        self.url = f"http://127.0.0.1:{self._control.recv()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._control.close()

    def pass_on(self) -> None:
        self._set("pass on")

    def drop_conditions(self) -> None:
        self._set("drop conditions")

    def race_conditions(self) -> None:
        self._set("race conditions")

    def refuse_credentials(self) -> None:
        self._set("refuse credentials")

    def fail(self) -> None:
        self._set("fail")

    def stall(self) -> None:
        self._set("stall")

    def cut_uploads(self) -> None:
        self._set("cut uploads")

    def lose_answers(self, count: int) -> None:
        self._set("lose answers", count)

    def refuse_files(self) -> None:
        self._set("refuse files")

    def fail_behind_commit(self) -> None:
        self._set("fail behind commit")

    def misbehave(self, seed: int) -> None:
        self._set("misbehave", seed)

    def requests(self) -> list[str]:
        """Return the method and the path of each request since the last call."""
        requests: list[str] = self._ask(None)
        return requests

    def _set(self, mode: str, number: int = 0) -> None:
        self._ask((mode, number))

    def _ask(self, order: tuple[str, int] | None) -> Any:
        self._control.send(order)
        assert self._control.poll(_START_MAX_S), "the proxy is gone"
        return self._control.recv()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(url)
        self.mode = "pass on"
        self.answers_lost = 0
        self.chance = random.Random(0)
        self.lock = threading.Condition()
        self.racing: Counter[str] = Counter()
        self.requests: list[str] = []

    def note(self, request: str) -> None:
        """Take note of a request."""
        with self.lock:
            self.requests.append(request)

    def take_notes(self) -> list[str]:
        """Return the requests since the last call."""
        with self.lock:
            requests, self.requests = self.requests, []
        return requests

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""

    def set(self, mode: str, number: int) -> None:
        """Do so to all requests from now on."""
        with self.lock:
            self.mode, self.answers_lost, self.chance = mode, number, random.Random(number)

    def mishap(self, command: str, path: str) -> str:
        """Return what happens to a request of a store that misbehaves; mostly nothing."""
        if self.mode != "misbehave":
            return ""
        shares = _TO_COMMITS if command == "PUT" and _is_commit(path) else _TO_REQUESTS
        with self.lock:
            drawn = self.chance.randrange(100)
        for mishap, share in shares.items():
            if drawn < share:
                return mishap
            drawn -= share
        return ""

    def some_delay_s(self) -> float:
        """Return how long a slow answer takes."""
        with self.lock:
            return self.chance.uniform(0, _SLOW_MAX_S)

    def loses_answer(self, path: str) -> bool:
        """Tell whether this commit's answer is one that is lost."""
        with self.lock:
            if self.mode != "lose answers" or not _is_commit(path) or not self.answers_lost:
                return False
            self.answers_lost -= 1
            return True

    def commit_taken(self) -> None:
        """Fail of files from now on, if it is to be so behind a commit."""
        with self.lock:
            if self.mode == "fail behind commit":
                self.mode = "fail of files"

    def await_race(self, path: str) -> None:
        """Wait until two want to create one file."""
        with self.lock:
            self.racing[path] += 1
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.racing[path] > 1, _RACE_MAX_S)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    @override
    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do(self) -> None:
        mode = self.server.mode
        self.server.note(f"{self.command} {self.path}")
        if mode == "stall":
            threading.Event().wait()
        mishap = self.server.mishap(self.command, self.path)
        if mishap == "slow":
            _CLOCK.sleep(self.server.some_delay_s())
        size = int(self.headers.get("Content-Length", 0))
        if "cut" in (mishap, mode.removesuffix(" uploads")) and self.command == "PUT" and size:
            self.rfile.read(size // 2)
            self._cut()
            return
        body = self.rfile.read(size)
        if mode == "refuse credentials" or (mode == "refuse files" and _is_of_file(self.path)):
            self._answer(403, {}, _REFUSED)
        elif "fail" in (mishap, mode) or (mode == "fail of files" and _is_of_file(self.path)):
            self._answer(503, {}, b"")
        else:
            self._pass_on(mode, body, is_answer_lost=mishap == "lose answer")

    # As Python's server calls them.
    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do  # noqa: N815

    def _pass_on(self, mode: str, body: bytes, *, is_answer_lost: bool) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        is_create = _CONDITION in {name.lower() for name in headers}
        if is_create and mode in ("drop conditions", "race conditions"):
            headers = {name: text for name, text in headers.items() if name.lower() != _CONDITION}
        if is_create and mode == "race conditions":
            exists = self._behind("HEAD", {}, b"")[0] == 200
            # The first version is made by one alone.
            if not self.path.endswith("0" * 20 + ".json"):
                self.server.await_race(self.path)
            if exists:
                self._answer(412, {}, b"")
                return
        status, answer_headers, data = self._behind(self.command, headers, body)
        is_taken = self.command == "PUT" and status == 200
        if is_taken and (is_answer_lost or self.server.loses_answer(self.path)):
            self._cut()
            return
        if is_taken and _is_commit(self.path):
            self.server.commit_taken()
        self._answer(status, answer_headers, data)

    def _behind(
        self, command: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = self.server.behind.hostname or "", self.server.behind.port
        connection = http.client.HTTPConnection(host, port)
        try:
            connection.request(command, self.path, body or None, headers)
            response = connection.getresponse()
            return response.status, dict(response.headers.items()), response.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        dropped = ("connection", "transfer-encoding", "date", "server")
        for name, value in headers.items():
            if name.lower() not in dropped:
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name in headers}:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()


def _is_of_file(path: str) -> bool:
    return "/shard=" in path or "/shard%3D" in path


def _is_commit(path: str) -> bool:
    return "_delta_log/" in path and path.endswith(".json")


def _serve(control: Connection, url: str) -> None:
    server = _Server(url)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    control.send(server.server_address[1])
    # The test's end is its own.
    with suppress(EOFError):
        while True:
            order = control.recv()
            if order is None:
                control.send(server.take_notes())
                continue
            server.set(*order)
            control.send(None)
