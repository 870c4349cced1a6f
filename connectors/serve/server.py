"""The server over the shards of a root: a thread accepts, and each connection has its own.

Where it stands between starting and its end:

1. `__init__` binds the address, and refuses settings that do not work.
2. A thread accepts connections; each gets a thread, a handshake if there is TLS, and requests are
   answered one after the other.
3. `close` accepts no more, ends connections that wait for a request, lets answers go on for
   `stop_s`, then cuts what is left, and closes the streams.
"""

import errno
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Self

from connectors.monitoring.listening import bound_socket
from connectors.serve.answer_writer import AnswerWriter
from connectors.serve.commands.line_server import (
    LineServer,
    listening_address,
    listening_path,
)
from connectors.serve.commands.store_reactor import STORES_IN_A_ROW, StoreReactor, is_single_store
from connectors.serve.connection import Connection, GoneError
from connectors.serve.handler import Handler
from connectors.serve.refusals import SHORT, RefusedError, too_many_connections
from connectors.serve.settings import ServeSettings
from connectors.serve.tls import Certificate, begins_tls
from connectors.settings.operations_settings import is_loopback, join_address
from storage_core import Clock, SystemClock

_LOOK_EVERY_S: Final = 0.05
_REFUSAL_WITHIN_S: Final = 0.2
_TLS_ONLY: Final = "this server takes only TLS: use https://, clients of shardlog shardlogs://"


class ShardServer:
    """Serves a root until it is closed. A context manager."""

    def __init__(
        self,
        settings: ServeSettings,
        version: str = "",
        clock: Clock | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        """Listen, and begin to answer.

        Args:
            settings: What it is told.
            version: Of shardlog, as answers say it.
            clock: Time, for tests.
            listener: A socket that listens already, in the place of one of its own.

        Raises:
            InvalidRequestError: It is no root, or the address, a token's or a certificate's file
                cannot be used.
            UnavailableError: Another process has the address.
        """
        self._clock = clock or SystemClock()
        self._bounds = settings.bounds
        self._certificate = (
            Certificate(settings.tls_certificate, settings.tls_key, self._clock)
            if settings.tls_certificate is not None and settings.tls_key is not None
            else None
        )
        self._listener = listener or bound_socket(settings.listen, "--listen")
        self.host, self.port = self._listener.getsockname()[:2]
        try:
            self.handler = Handler(
                settings, version, self._clock, is_open_to_all=not is_loopback(self.host)
            )
            self.line_servers = self._line_servers(settings)
        except BaseException:
            self._listener.close()
            raise
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self.store_reactor = StoreReactor(
            self.handler, self._bounds, self._clock, self._go_on, self._end
        )
        if self._certificate is not None:
            self.handler.figures.certificate_expires_s = self._certificate.expires_s
        self.handler.figures.gauges = {
            "connections": lambda: len(self._connections),
            "storing_connections": lambda: len(self.store_reactor),
            "line_connections": lambda: sum(map(len, self.line_servers)),
            "subscriptions": lambda: self.handler.subscription_slots.taken,
            "answers": lambda: self.handler.slots.taken,
            "held_bytes": lambda: self.handler.slots.held_bytes,
            "body_bytes": lambda: self.handler.body_room.held_bytes,
            "waits": lambda: len(self.handler.watch),
            "streams": lambda: len(self.handler.streams),
            "stagings": lambda: self.handler.writes.slots.taken,
            "landings": lambda: len(self.handler.writes.landings),
        }
        self._thread = threading.Thread(target=self._accept, name="shardlog-accept", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Host and port, the one that was taken where any was asked for."""
        return join_address(self.host, self.port)

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"{'http' if self._certificate is None else 'https'}://{self.address}"

    @property
    def root_id(self) -> str:
        """The id of the root that it serves."""
        return self.handler.streams.root_id

    def out_of_date(self) -> str | None:
        """Return what is wrong with the time of its certificate, if it has one."""
        return None if self._certificate is None else self._certificate.out_of_date()

    def close(self) -> None:
        """Stop: answers on their way have some seconds to end. Closing twice is fine."""
        self.handler.stopping.set()
        self.handler.watch.wake()
        with suppress(OSError):
            # A thread that accepts is not woken by closing alone.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for line_server in self.line_servers:
            line_server.stop()
        until_s = self._clock.monotonic_s() + self._bounds.stop_s
        while self._remaining() and self._clock.monotonic_s() < until_s:
            for connection in self._remaining():
                if not connection.ends_by_itself:
                    connection.cut_if_waiting()
            self._clock.sleep(_LOOK_EVERY_S)
        for connection in self._remaining():
            connection.cut()
        self.store_reactor.close()
        for line_server in self.line_servers:
            line_server.close(until_s)
        self.handler.events.close()
        self.handler.writes.close()
        self.handler.streams.close()

    def _line_servers(self, settings: ServeSettings) -> list[LineServer]:
        """Listen where a command a line is to come."""
        servers: list[LineServer] = []
        try:
            if settings.command_listen is not None:
                servers.append(self._line_server(*listening_address(settings.command_listen)))
            if settings.command_socket is not None:
                servers.append(self._line_server(*listening_path(settings.command_socket)))
        except BaseException:
            for server in servers:
                server.stop()
            raise
        return servers

    def _line_server(self, listener: socket.socket, name: str) -> LineServer:
        serve = self.handler.lines.serve
        return LineServer(listener, name, serve, self._bounds, self._clock)

    def _remaining(self) -> list[Connection]:
        with self._lock:
            return list(self._connections)

    def _count(self, *, is_reserved: bool) -> int:
        # Those that were cut have given their places up.
        return sum(one.is_reserved is is_reserved and not one.is_cut for one in self._remaining())

    def _accept(self) -> None:
        while not self.handler.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if error.errno in SHORT:
                    self._make_room()
                    self._clock.sleep(_LOOK_EVERY_S)
                    continue
                if self.handler.stopping.is_set() or error.errno in (errno.EBADF, errno.EINVAL):
                    return
                # One that went away before it was accepted, or a network that is down.
                self._clock.sleep(_LOOK_EVERY_S)
                continue
            self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        is_reserved = False
        if self._count(is_reserved=False) >= self._bounds.connections:
            # The last ones answer health and metrics, which are asked for most where all wait.
            is_reserved = not self._make_room()
        connection = Connection(sock, self._bounds, self._clock, is_reserved=is_reserved)
        if is_reserved and self._count(is_reserved=True) >= self._bounds.reserved:
            self._refuse(connection, sock)
            return
        with self._lock:
            self._connections.add(connection)
        thread = threading.Thread(
            target=self._run, args=(connection, sock), name="shardlog-client", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # The system gives no thread.
            self._refuse(connection, sock)
            with self._lock:
                self._connections.discard(connection)

    def _make_room(self) -> bool:
        """End a connection whose client has gone, or that is idle longest; tell whether one is."""
        connections = [one for one in self._remaining() if not one.is_reserved]
        left = next((one for one in connections if one.is_left()), None)
        if left is not None:
            left.cut()
            return True
        since = [(one.idle_since_s(), one) for one in connections]
        idle = [(since_s, one) for since_s, one in since if since_s is not None]
        return any(one.cut_if_waiting() for _, one in sorted(idle, key=lambda pair: pair[0]))

    def _refuse(self, connection: Connection, sock: socket.socket) -> None:
        self.handler.figures.add("connections_refused")
        if self._certificate is None:
            sock.settimeout(_REFUSAL_WITHIN_S)
            with suppress(GoneError):
                writer = AnswerWriter(connection, self.handler.own_headers)
                self.handler.refuse(writer, too_many_connections(self._bounds), closes=True)
        connection.close()

    def _run(self, connection: Connection, sock: socket.socket) -> None:
        def greets() -> bool:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return self._certificate is None or self._shake_hands(connection, sock)

        self._serve(connection, greets)

    def _go_on(self, connection: Connection, rest: bytes) -> None:
        """Give a connection a thread again; it first sends what is left of an answer."""

        def sends() -> bool:
            if rest:
                connection.send([rest])
            return True

        thread = threading.Thread(
            target=self._serve, args=(connection, sends), name="shardlog-client", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # The system gives no thread.
            self._end(connection)

    def _serve(self, connection: Connection, begins: Callable[[], bool]) -> None:
        """Answer on a connection that has begun well, until it ends or is taken over."""
        is_taken = False
        try:
            is_taken = begins() and self._answer(connection)
        except (GoneError, OSError):
            pass
        finally:
            if not is_taken:
                self._end(connection)

    def _end(self, connection: Connection) -> None:
        connection.close()
        self.handler.body_room.leave(connection)
        with self._lock:
            self._connections.discard(connection)

    def _shake_hands(self, connection: Connection, sock: socket.socket) -> bool:
        assert self._certificate is not None
        try:
            is_plain = not begins_tls(sock, self._bounds.request_s)
        except OSError:
            is_plain = False
        if is_plain:
            self.handler.figures.add("handshakes_failed")
            self._refuse_plain(connection)
            return False
        context = self._certificate.context()
        encrypted = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        connection.take_over(encrypted)
        encrypted.settimeout(self._bounds.request_s)
        try:
            encrypted.do_handshake()
        except (ssl.SSLError, OSError):
            # A client without TLS, one that does not trust the certificate, or a slow one.
            self.handler.figures.add("handshakes_failed")
            return False
        return True

    def _refuse_plain(self, connection: Connection) -> None:
        """Tell a client without TLS, in plain, that it needs it."""
        try:
            request = connection.next_request(lambda _: False)
        except RefusedError:
            # It speaks no HTTP: what it would take for an answer nobody knows.
            return
        if request is not None:
            writer = AnswerWriter(connection, self.handler.own_headers)
            self.handler.refuse(writer, RefusedError(400, _TLS_ONLY), closes=True)

    def _answer(self, connection: Connection) -> bool:
        """Answer requests; return whether the thread of those that store goes on with that."""
        stores = 0
        takes_body = partial(self.handler.takes_body, connection)
        while True:
            self.handler.body_room.leave(connection)
            try:
                request = connection.next_request(takes_body)
            except RefusedError as error:
                writer = AnswerWriter(connection, self.handler.own_headers)
                status, sent = self.handler.refuse(writer, error, closes=True)
                self.handler.figures.answered("none", status, 0.0, sent)
                return False
            if request is None or not self.handler.handle(connection, request):
                return False
            stores = stores + 1 if is_single_store(request) else 0
            if stores >= STORES_IN_A_ROW and self._certificate is None:
                if self.store_reactor.take(connection):
                    return True
                stores = 0
