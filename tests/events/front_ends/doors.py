"""The vocabulary of front ends: one way to tell a command and to be told its answer, for each door.

with open_door("tcp", root) as door:     a server over the root, and a client of it
    door.tell("PING").message            what the command is answered
with commanding(root) as served:         a server alone, that everybody on this machine may write to
    posted(served, "PING", accept=…)     the answer of `POST /command`
    with lines_of(served) as lines: …    a connection that sends a command a line
"""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import ClientConnection, connect

from storage_core.roots import make_root
from tests.log.serve.served import ANSWER_MAX_S, Served, serving
from tests.unit.connectors.command import Shardlog
from typed_events.answer import Answer

DOORS: Final = ("http", "tcp", "unix", "ws", "command", "command-server")
# What differs between two stores that were told the same.
_OF_THE_MOMENT: Final = ("defined", "timestamp", "bucket", "detail")


@dataclass(frozen=True, slots=True)
class Told:
    """What a command is answered."""

    status: str
    message: str
    rows: tuple[Any, ...]

    @classmethod
    def of_json(cls, text: str | bytes) -> "Told":
        said = json.loads(text)
        assert said["count"] == len(said["rows"])
        return cls(said["status"], said["message"], tuple(map(_lasting, said["rows"])))

    @classmethod
    def of_answer(cls, answer: Answer) -> "Told":
        rows = [row for batch in answer.batches for row in batch.to_pylist()]
        return cls(str(answer.status), answer.message, tuple(map(_lasting, rows)))


def _lasting(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in row.items() if name not in _OF_THE_MOMENT}


def _text(value: Any) -> Any:
    is_time = isinstance(value, datetime | date)
    return value.isoformat().replace("+00:00", "Z") if is_time else value


@dataclass(frozen=True, slots=True)
class Door:
    """A front end, and its client.

    Attributes:
        tell: Has it do a command.
        served: The server behind it, if there is one.
    """

    tell: Callable[[str], Told]
    served: Served | None = None


@contextmanager
def open_door(name: str, root: Path, shardlog: Shardlog) -> Iterator[Door]:
    """Open a front end over a root."""
    if name == "command":
        yield Door(lambda text: _told_by_command(shardlog, root, text))
        return
    with commanding(root) as served:
        match name:
            case "http":
                yield Door(lambda text: Told.of_json(posted(served, text)[1]), served)
            case "command-server":
                server = f"shardlog://{served.server.address}"
                yield Door(lambda text: _told_by_command(shardlog, server, text), served)
            case "ws":
                with connect(f"ws://{served.server.address}/ws", compression=None) as socket:
                    yield Door(lambda text: Told.of_json(_reply_of(socket, text)), served)
            case _:
                with lines_of(served, name) as lines:
                    lines.send("FORMAT json")
                    lines.line()
                    yield Door(lambda text: Told.of_json(lines.ask_line(text)), served)


def _reply_of(socket: ClientConnection, text: str) -> str | bytes:
    socket.send(text)
    return socket.recv(ANSWER_MAX_S)


def _told_by_command(shardlog: Shardlog, root: Path | str, text: str) -> Told:
    ran = shardlog("command", root, text, "--format", "json")
    assert ran.err == ""
    reply = Told.of_json(ran.out)
    assert (ran.code == 0) is (reply.status == "OK")
    return reply


@contextmanager
def commanding(root: Path, **settings: Any) -> Iterator[Served]:
    """Serve a root that is made if it is not there, with all front ends."""
    make_root(root)
    sockets = {"command_listen": "127.0.0.1:0", "command_socket": root / "socket"}
    writable = {} if "write_tokens" in settings or "read_tokens" in settings else {"is_writable": 1}
    with serving(root, **{**sockets, **writable, **settings}) as served:
        yield served


def posted(
    served: Served, body: str | bytes, method: str = "POST", path: str = "/command", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of the answer to commands; JSON unless told otherwise."""
    named = {"Accept": "application/json"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = body.encode() if isinstance(body, str) else body
    connection = HTTPConnection(served.server.address, timeout=ANSWER_MAX_S)
    try:
        connection.request(method, path, data, named)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


class Lines:
    """A connection that sends a command a line."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._file = sock.makefile("rwb")

    def send(self, *lines: str | bytes) -> None:
        for line in lines:
            self._file.write((line.encode() if isinstance(line, str) else line) + b"\n")
        self._file.flush()

    def end(self, text: str) -> None:
        """Send the beginning of a line, and nothing more."""
        self._file.write(text.encode())
        self._file.flush()
        self._socket.shutdown(socket.SHUT_WR)

    def line(self) -> str:
        """Return the next line; nothing where the server has ended the connection."""
        return self._file.readline().decode()

    def ask_line(self, text: str) -> str:
        self.send(text)
        return self.line()

    def ask(self, text: str | bytes) -> list[str]:
        """Return the lines of the answer to a command, without the empty one that ends it."""
        self.send(text)
        return self.answer()

    def answer(self) -> list[str]:
        lines: list[str] = []
        while (line := self.line()) not in ("\n", ""):
            lines.append(line.removesuffix("\n"))
        return lines


@contextmanager
def lines_of(served: Served, name: str = "tcp") -> Iterator[Lines]:
    """Connect to one of the sockets that take a command a line."""
    place = served.server.line_servers[name == "unix"].name
    with socket.socket(socket.AF_UNIX if name == "unix" else socket.AF_INET) as sock:
        sock.settimeout(ANSWER_MAX_S)
        host, _, port = place.rpartition(":")
        sock.connect(place if name == "unix" else (host, int(port)))
        yield Lines(sock)
