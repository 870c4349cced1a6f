"""What stands between a client and a server, and cuts answers.

with Relay(port) as relay:                 passes all on to a port of this machine; None: to nobody
    relay.port = another                   … and new connections to another
    relay.bytes_of_last_answer()
    relay.connections                      how many came, up to now
    relay.has_cut                          whether one was cut
    relay.cut_next_answer_at(100)          the connection ends behind so many bytes of it
    relay.cut_answers_at(100)              the same, of each answer from now on
    relay.stall_next_answer_at(100)        nothing comes behind so many bytes of it, for good
    relay.stalled.wait(60)                 until one has stalled
with speaking(b"...") as address:          somebody who answers everybody so, and ends; None: never
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from select import select
from typing import Self

_PIECE_BYTES = 65_536


class Relay:
    """Passes bytes on, both ways; each connection is a thread's."""

    def __init__(self, port: int | None) -> None:
        self.port = port
        self.connections = 0
        self.has_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sent = 0
        self._cut_at: int | None = None
        self._cuts_each = False
        self._stall_at: int | None = None
        self.stalled = threading.Event()
        self._ended = threading.Event()
        self._open: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def bytes_of_last_answer(self) -> int:
        """Return how many bytes came back for the last question."""
        return self._sent

    def cut_next_answer_at(self, place: int) -> None:
        self._cut_at = place

    def cut_answers_at(self, place: int) -> None:
        self._cut_at, self._cuts_each = place, True

    def stall_next_answer_at(self, place: int) -> None:
        self._stall_at = place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                if self.port is None:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.port))
                self._open += [client, server]
                passes = threading.Thread(target=self._pass, args=(client, server), daemon=True)
                self._threads.append(passes)
                passes.start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError, ValueError):
            while True:
                for readable in select([client, server], [], [])[0]:
                    piece = readable.recv(_PIECE_BYTES)
                    if not piece:
                        return
                    if readable is client:
                        self._sent = 0
                        server.sendall(piece)
                        continue
                    if self._stall_at is not None and self._sent + len(piece) > self._stall_at:
                        self._stall_at = None
                        self.stalled.set()
                        self._ended.wait()
                        return
                    if self._cut_at is not None and self._sent + len(piece) > self._cut_at:
                        client.sendall(piece[: self._cut_at - self._sent])
                        self.has_cut = True
                        if not self._cuts_each:
                            self._cut_at = None
                        return
                    self._sent += len(piece)
                    client.sendall(piece)


@contextmanager
def speaking(answer: bytes | None) -> Iterator[str]:
    """Answer each connection with some bytes and end it; with None be silent for good."""
    listener = socket.create_server(("127.0.0.1", 0))
    clients: list[socket.socket] = []

    def answers() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                clients.append(client)
                client.recv(_PIECE_BYTES)
                if answer is not None:
                    client.sendall(answer)
                    client.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=answers, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for client in clients:
            client.close()
        thread.join()
