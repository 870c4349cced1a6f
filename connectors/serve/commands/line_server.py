"""Listens for connections that send a command a line: on an address, or on a Unix socket.

A thread accepts, and each connection has its own. Only this machine is listened to.
"""

import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from connectors.monitoring.listening import bound_socket
from connectors.serve.connection import Connection, GoneError
from connectors.serve.settings import Bounds
from connectors.settings.operations_settings import is_loopback, join_address
from storage_core import Clock, InvalidRequestError, UnavailableError

_LOOK_EVERY_S: Final = 0.05
_BACKLOG: Final = 128
_ALONE: Final = 0o600
_TOO_MANY: Final = b"Busy: too many connections are open; try again\n\n"

Serve = Callable[[Connection, Callable[[], bool]], None]


class LineServer:
    """Accepts connections until it is closed."""

    def __init__(
        self, listener: socket.socket, name: str, serve: Serve, bounds: Bounds, clock: Clock
    ) -> None:
        """Begin to accept.

        Args:
            listener: A socket that listens.
            name: Where, for people.
            serve: Answers a connection until it ends; its second argument tells to end.
            bounds: How many connections there may be, and how long they take.
            clock: Time.
        """
        self.name = name
        self._listener = listener
        self._serve = serve
        self._bounds = bounds
        self._clock = clock
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._thread = threading.Thread(target=self._accept, name="shardlog-lines", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._connections)

    def stop(self) -> None:
        """Accept no more, and end connections that wait for a command; stopping twice is fine."""
        if not self._stopping.is_set():
            self._stop_listening()
        for connection in self._remaining():
            connection.cut_if_waiting()

    def close(self, until_s: float) -> None:
        """Let answers on their way end until a time; cut what is left."""
        self.stop()
        while self._remaining() and self._clock.monotonic_s() < until_s:
            self._clock.sleep(_LOOK_EVERY_S)
            # One may have begun to wait for a command just before it could know.
            self.stop()
        for connection in self._remaining():
            connection.cut()

    def _stop_listening(self) -> None:
        self._stopping.set()
        if self._listener.family is socket.AF_UNIX:
            # Once, and while it listens: behind that the path may be the next server's.
            with suppress(OSError):
                Path(self.name).unlink()
        with suppress(OSError):
            # A thread that accepts is not woken by closing alone.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _remaining(self) -> list[Connection]:
        with self._lock:
            return list(self._connections)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._stopping.is_set() or self._listener.fileno() < 0:
                    return
                self._clock.sleep(_LOOK_EVERY_S)
                continue
            if len(self) >= self._bounds.connections:
                _refuse(sock)
                continue
            connection = Connection(sock, self._bounds, self._clock)
            with self._lock:
                self._connections.add(connection)
            thread = threading.Thread(
                target=self._run, args=(connection,), name="shardlog-line-client", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                # The system gives no thread.
                self._end(connection)

    def _run(self, connection: Connection) -> None:
        try:
            with suppress(GoneError):
                self._serve(connection, self._stopping.is_set)
        finally:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        connection.close()
        with self._lock:
            self._connections.discard(connection)


def listening_address(listen: str) -> tuple[socket.socket, str]:
    """Return a socket that listens on an address of this machine alone, and its name.

    Raises:
        InvalidRequestError: Others could reach it.
        UnavailableError: Another process has it.
    """
    listener = bound_socket(listen, "--command-listen")
    host, port = listener.getsockname()[:2]
    if not is_loopback(host):
        listener.close()
        message = (
            f"--command-listen: {listen} can be reached from other machines; name an address of "
            "this one, others send commands to POST /command"
        )
        raise InvalidRequestError(message)
    return listener, join_address(host, port)


def listening_path(path: Path) -> tuple[socket.socket, str]:
    """Return a Unix socket that listens at a path, for this user alone, and its name.

    Raises:
        InvalidRequestError: It cannot be there.
        UnavailableError: Another process listens there.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        _remove_left(path)
        listener.bind(str(path))
        path.chmod(_ALONE)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        why = (error.strerror or str(error)).lower()
        message = f"--command-socket: {path} cannot be had: {why}"
        raise InvalidRequestError(message) from error
    except BaseException:
        listener.close()
        raise
    return listener, str(path)


def _remove_left(path: Path) -> None:
    """Remove the socket of a server that is gone; a file of others stays and is in the way."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX) as other:
            try:
                other.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
                return
        message = f"--command-socket: another process listens at {path}"
        raise UnavailableError(message)


def _refuse(sock: socket.socket) -> None:
    with suppress(OSError), sock:
        sock.settimeout(0)
        sock.send(_TOO_MANY)
