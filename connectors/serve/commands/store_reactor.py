"""One thread for the connections whose clients store one event a request, again and again.

A thread for each of them costs more than what they ask for: it is woken for the request, and again
for the answer, and each time the interpreter changes hands. So a connection that has brought some
single STOREs in a row is handed over (`take`), and this thread receives for all of them, begins the
STOREs that came, and answers those of a group together, once the group is durable.

What is no single STORE that the client may make, is large, or has an answer that is not taken at
once goes back to a thread of its own, with what was received: nothing is refused here but what
storing refuses. Times are those of any connection. Linux has what it waits with; elsewhere nothing
is taken.
"""

import os
import select
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import typer

from connectors.serve.answer_writer import Piece
from connectors.serve.commands.http_commands import StoreRequest
from connectors.serve.connection import Connection, GoneError
from connectors.serve.handler import Handler
from connectors.serve.http_request import HttpRequest, parse_head
from connectors.serve.settings import Bounds
from storage_core import Clock
from typed_events.answer import Answer

if TYPE_CHECKING:
    from typed_events.store.soon import SoonStored

STORES_IN_A_ROW: Final = 3
# What is larger is received by a thread of its own.
_RECEIVED_MAX: Final = 65_536
# How often times are looked at.
_LOOK_EVERY_S: Final = 0.5
# Clients have few heads; only Content-Length differs.
_HEADS_MAX: Final = 1024
_STORE: Final = b"STORE "


def is_single_store(request: HttpRequest) -> bool:
    """Tell whether a request looks like one STORE, on one line."""
    if request.method != "POST" or request.segments != ("command",):
        return False
    body = request.body.strip()
    return body[: len(_STORE)].upper() == _STORE and b"\n" not in body


class _Collected:
    """An answer that is collected, to be sent at once."""

    def __init__(self) -> None:
        self.content = b""

    def send(self, pieces: Iterable[Piece]) -> int:
        piece = b"".join(pieces)
        self.content += piece
        return len(piece)


@dataclass(slots=True, eq=False)
class _Client:
    """A connection, and its STORE that is under way.

    Attributes:
        connection: The connection.
        until_s: When it is closed, unless a whole request has come by then.
        is_partial: Whether some of a request has come.
        wanted: The STORE; None as long as one is waited for.
        soon: The same, once it was begun.
        begun_s: When it came.
        has_more: Whether more may be there to be received, of which nobody tells any more.
    """

    connection: Connection
    until_s: float
    is_partial: bool = False
    wanted: StoreRequest | None = None
    soon: "SoonStored | None" = None
    begun_s: float = 0.0
    has_more: bool = False


class StoreReactor:
    """Receives and answers for connections that store. `take` and `close` are of any thread."""

    def __init__(
        self,
        handler: Handler,
        bounds: Bounds,
        clock: Clock,
        give_back: Callable[[Connection, bytes], None],
        end: Callable[[Connection], None],
    ) -> None:
        """Begin with none, and without a thread.

        Args:
            handler: Who says what a client may, and how it is answered.
            bounds: Times.
            clock: Time.
            give_back: Gives a connection a thread of its own, with what is left to be sent.
            end: Closes a connection.
        """
        self._handler = handler
        self._bounds = bounds
        self._clock = clock
        self._give_back = give_back
        self._end = end
        self._parse = lru_cache(_HEADS_MAX)(parse_head)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._clients: dict[int, _Client] = {}
        # Of its own thread: those whose STORE waits to be begun, and those whose STORE was.
        self._ready: list[_Client] = []
        self._begun: list[_Client] = []
        # Whether some have ended since it was looked last.
        self._has_ended = False
        self._looked_s = clock.monotonic_s()

    def __len__(self) -> int:
        """Return how many connections it has."""
        return len(self._clients)

    # --- of any thread -----------------------------------------------------------------------

    def take(self, connection: Connection) -> bool:
        """Take a connection whose next request has not begun; return whether it was taken."""
        if not hasattr(select, "epoll") or connection.received_bytes:
            return False
        with self._lock:
            if self._is_closed or not self._is_running():
                return False
            now_s = self._clock.monotonic_s()
            connection.waiting_since_s = now_s
            connection.never_wait()
            number = connection.fileno()
            self._clients[number] = _Client(connection, now_s + self._bounds.idle_s)
            try:
                # It tells of each thing that comes once, so nothing is asked for again.
                self._poller.register(number, select.EPOLLIN | select.EPOLLET)
            except OSError:
                del self._clients[number]
                return False
        return True

    def close(self) -> None:
        """End the thread, and the connections that it has. Closing twice is fine."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._is_closed = True
            if thread is None:
                return
            os.eventfd_write(self._waker, 1)
        thread.join()
        for client in list(self._clients.values()):
            self._finish(client)
        self._opened.close()

    def _is_running(self) -> bool:
        """Begin, unless that was done; return whether the system has let it."""
        if self._thread is not None:
            return True
        with ExitStack() as opened:
            try:
                self._poller = opened.enter_context(select.epoll())
                self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                opened.callback(os.close, self._waker)
                self._poller.register(self._waker, select.EPOLLIN)
                thread = threading.Thread(target=self._run, name="shardlog-stores", daemon=True)
                thread.start()
            except (OSError, RuntimeError):
                return False
            self._thread, self._opened = thread, opened.pop_all()
        return True

    def _wake(self) -> None:
        with self._lock:
            # Whoever comes before this was seen wakes nobody a second time. What ends behind
            # `close` is no longer answered.
            if not self._has_ended and not self._is_closed:
                self._has_ended = True
                os.eventfd_write(self._waker, 1)

    # --- of its own thread -------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._turn()
            except Exception:  # noqa: BLE001 - the outermost: whoever is left sees the connection end
                failure = traceback.format_exc()
                typer.echo(f"shardlog: connections that store have ended\n{failure}", err=True)
                self._ready, self._begun = [], []
                for client in list(self._clients.values()):
                    self._finish(client)

    def _turn(self) -> None:
        came = self._poller.poll(_LOOK_EVERY_S)
        while came:
            for number, _ in came:
                self._see(number)
            if self._has_ended:
                self._has_ended = False
                self._answer_ended()
            # Those who come while others are received are begun together.
            came = self._poller.poll(0)
        self._begin_ready()
        if self._clock.monotonic_s() - self._looked_s >= _LOOK_EVERY_S:
            self._look()

    def _see(self, number: int) -> None:
        if number == self._waker:
            os.eventfd_read(self._waker)
            return
        client = self._clients.get(number)
        if client is None:
            return
        if client.wanted is not None:
            client.has_more = True
            return
        self._receive(client)

    def _receive(self, client: _Client) -> None:
        """Receive what has come; a whole STORE is ready, and what is none goes back."""
        connection = client.connection
        client.has_more = False
        try:
            if connection.received_bytes < _RECEIVED_MAX and not connection.receive_now():
                if connection.received_bytes:
                    # What the client has sent before it ended is answered.
                    self._leave(client)
                else:
                    self._finish(client)
                return
            begun = connection.begun_request(self._parse)
            if begun is None or begun[1] > connection.received_bytes:
                self._await_rest(client, None if begun is None else begun[0])
                return
            request, size = begun
            wanted = self._handler.store_of(request)
        except GoneError:
            self._finish(client)
            return
        except Exception:  # noqa: BLE001 - whatever it is, its own thread tells the client
            wanted, size = None, 0
        if wanted is None:
            self._leave(client)
            return
        client.has_more = connection.received_bytes > min(size, _RECEIVED_MAX - 1)
        try:
            connection.take_request(size)
        except GoneError:
            self._finish(client)
            return
        client.wanted, client.is_partial = wanted, False
        client.begun_s = self._clock.monotonic_s()
        self._ready.append(client)

    def _await_rest(self, client: _Client, request: HttpRequest | None) -> None:
        received = client.connection.received_bytes
        if received >= _RECEIVED_MAX or (request is not None and request.expects_continue):
            self._leave(client)
        elif received and not client.is_partial:
            client.is_partial = True
            client.until_s = self._clock.monotonic_s() + self._bounds.request_s

    def _begin_ready(self) -> None:
        if not self._ready:
            return
        ready, self._ready = self._ready, []
        stores = [client.wanted.store for client in ready if client.wanted is not None]
        begun = self._handler.events.store_soon(stores, self._wake)
        for client, soon in zip(ready, begun, strict=True):
            client.soon = soon
            if soon.submission is None:
                # Refused at once, so nobody else wakes this thread.
                self._wake()
        self._begun += ready

    def _answer_ended(self) -> None:
        """Answer those whose STORE has ended."""
        begun, self._begun = self._begun, []
        now_s = self._clock.monotonic_s()
        under_way = [(client.soon, client.begun_s) for client in begun if client.soon is not None]
        answers = self._handler.events.answers_soon(under_way, now_s)
        for client, answer in zip(begun, answers, strict=True):
            if answer is None:
                self._begun.append(client)
                continue
            try:
                self._answer(client, answer)
            except GoneError:
                self._handler.figures.answered("command", "cut", now_s - client.begun_s, 0)
                self._handler.figures.add("answers_cut")
                self._finish(client)

    def _answer(self, client: _Client, answer: Answer) -> None:
        assert client.wanted is not None, "it was begun"
        collected = _Collected()
        closes = self._handler.stopping.is_set()
        sent, status = self._handler.write_stored(collected, client.wanted, answer, closes=closes)
        client.wanted = client.soon = None
        rest = client.connection.send_now(collected.content)
        now_s = self._clock.monotonic_s()
        self._handler.figures.answered("command", status, now_s - client.begun_s, sent)
        if rest:
            self._leave(client, rest)
        elif closes:
            self._finish(client)
        else:
            client.connection.waiting_since_s = now_s
            client.until_s = now_s + self._bounds.idle_s
            if client.has_more:
                self._receive(client)

    def _look(self) -> None:
        """End the connections whose time is over, and the STOREs that have waited too long."""
        now_s = self._looked_s = self._clock.monotonic_s()
        for client in list(self._clients.values()):
            if client.wanted is None and now_s >= client.until_s:
                self._finish(client)
        self._answer_ended()

    def _leave(self, client: _Client, rest: bytes = b"") -> None:
        """Give a connection a thread of its own."""
        number = client.connection.fileno()
        del self._clients[number]
        self._poller.unregister(number)
        self._give_back(client.connection, rest)

    def _finish(self, client: _Client) -> None:
        self._clients.pop(client.connection.fileno(), None)
        self._end(client.connection)
