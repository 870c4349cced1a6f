"""A server in a JVM of its own.

    <directory>/<kind>.log  data/

It keeps its address and its data while the `Server` lives, through `kill` and a later `start`;
`stop` removes the data. It never outlives its owner (guard.py). Not for use by several
threads at a time.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, Self

from connectors.devtools.ports import LOOPBACK, free_ports
from connectors.devtools.process import GuardedProcess, Process, last_telling_line, start_guarded
from storage_core import InvalidRequestError, UnavailableError

# A port that was free can be taken by another before the server opens it.
_PORT_TRIES_MAX: Final = 3
_LOOK_EVERY_S: Final = 0.05
_PORT_TAKEN: Final = ("Address already in use", "seems to be in use by another process")


class PortTakenError(UnavailableError):
    """Another process listens on the chosen port."""


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What tells one kind of server from another.

    Attributes:
        name: What it is called.
        variable: The environment's name for one to use in place of ours.
        address: Its address by its host and port, `{}`.
        command: Prepares a server for its ports and returns the command that runs it.
        is_answering: Asks the server at an address a real question.
        ports: How many ports it opens; the first is that of its address.
        start_max_s: How long it may take until it answers.
    """

    name: str
    variable: str
    address: str
    command: Callable[["Server", tuple[int, ...]], list[str]]
    is_answering: Callable[[str], bool]
    ports: int = 1
    start_max_s: float = 180.0


class Server:
    """A server that can be started, killed and stopped; stopped when left."""

    def __init__(
        self,
        kind: ServerKind,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        owner: Process | None = None,
        jvm_options: Sequence[str] = (),
    ) -> None:
        """Choose places; nothing is started yet.

        Args:
            kind: What is run.
            directory: Where it lives.
            settings: Settings by the server's own names, over those of the dev stack.
            owner: Whose end is the server's; this process by default.
            jvm_options: What its JVM is told besides.
        """
        self.kind = kind
        self.directory = directory.absolute()
        self.settings = dict(settings or {})
        self.jvm_options = tuple(jvm_options)
        self.owner = owner or Process.current()
        self.log = self.directory / f"{kind.name}.log"
        self.data = self.directory / "data"
        self.running: GuardedProcess | None = None
        self._ports: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Return where clients find it."""
        assert self._ports, "it has been started"
        return self._address_at(self._ports)

    def start(self) -> None:
        """Start it and return when it answers; on the same data and address if it ran before.

        Raises:
            UnavailableError: It did not start, or its jars cannot be fetched.
            InvalidRequestError: It runs, or a JVM or PySpark is missing.
        """
        if self.running is not None and self.running.program.is_alive():
            message = f"the {self.kind.name} already runs at {self.address}"
            raise InvalidRequestError(message)
        self.directory.mkdir(parents=True, exist_ok=True)
        for _ in range(_PORT_TRIES_MAX - 1):
            with suppress(PortTakenError):
                self._start_once()
                return
        self._start_once()

    def kill(self) -> None:
        """End it as kill -9 does; its data and address stay."""
        if self.running is not None:
            self.running.program.kill()

    def stop(self) -> None:
        """End it in good order and remove its data; a second call does nothing."""
        if self.running is not None:
            self.running.program.stop()
        shutil.rmtree(self.data, ignore_errors=True)

    def run(self, command: list[str]) -> GuardedProcess:
        """Start a program for it, with the same log and the same owner."""
        return start_guarded(command, log=self.log, scratch=self.data, owner=self.owner)

    def _address_at(self, ports: tuple[int, ...]) -> str:
        return self.kind.address.format(f"{LOOPBACK}:{ports[0]}")

    def _start_once(self) -> None:
        # Clients know the address of a server that has run; one that has not may move.
        ports = self._ports or free_ports(self.kind.ports)
        self.running = self.run(self.kind.command(self, ports))
        try:
            self._await_answer(self.running.program, self._address_at(ports))
        except BaseException:
            self.kill()
            raise
        self._ports = ports

    def _await_answer(self, program: Process, address: str) -> None:
        name, limit_s = self.kind.name, self.kind.start_max_s
        deadline = monotonic() + limit_s
        while not self.kind.is_answering(address):
            if program.has_ended_within(_LOOK_EVERY_S):
                reason = last_telling_line(self.log)
                message = f"the {name} ended while it started: {reason}"
                is_taken = any(words in reason for words in _PORT_TAKEN)
                raise (PortTakenError if is_taken else UnavailableError)(message, path=self.log)
            if monotonic() > deadline:
                reason = last_telling_line(self.log)
                message = f"the {name} did not answer within {limit_s:.0f} s: {reason}"
                raise UnavailableError(message, path=self.log)
