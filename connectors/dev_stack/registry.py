"""A real schema registry: Apicurio in a JVM of its own, everything in its memory.

    <directory>/registry.log

It speaks the Confluent registry's protocol at `url`. What was registered is gone when it ends;
it never outlives its owner (guard.py). Not for use by several threads at a time.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from connectors.dev_stack.answers import is_registry_answering
from connectors.dev_stack.bundles import REGISTRY
from connectors.dev_stack.child import GuardedProcess, start_guarded
from connectors.dev_stack.jars import fetched
from connectors.dev_stack.java import find_java
from connectors.dev_stack.ports import LOOPBACK, free_ports
from connectors.dev_stack.process import Process
from connectors.dev_stack.startup import PORT_TRIES_MAX, PortTakenError, await_answer
from storage_core import InvalidRequestError, UnavailableError

_PROTOCOL_PATH: Final = "/apis/ccompat/v7"
# It loads far more classes than the broker, and takes several times as long on a busy machine.
_START_MAX_S: Final = 120.0


class Registry:
    """A registry that can be started and stopped; stopped when left."""

    def __init__(self, directory: Path | None = None, *, owner: Process | None = None) -> None:
        """Choose places; nothing is started yet.

        Args:
            directory: Where it lives; a temporary one by default, removed by `stop`.
            owner: Whose end is the registry's; this process by default.
        """
        self.directory = Path(directory or tempfile.mkdtemp(prefix="shardlog-registry-")).absolute()
        self.log = self.directory / "registry.log"
        self.running: GuardedProcess | None = None
        self._is_own_directory = directory is None
        self._owner = owner
        self._port: int | None = None

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    @property
    def url(self) -> str:
        """Return its address, for clients' `schema.registry.url`."""
        if self._port is None:
            message = "the registry has no address yet: start it"
            raise InvalidRequestError(message)
        return f"http://{LOOPBACK}:{self._port}{_PROTOCOL_PATH}"

    def start(self) -> None:
        """Start it and return when it answers.

        Raises:
            UnavailableError: It did not start, or it cannot be fetched.
            InvalidRequestError: It runs, or a JVM or PySpark is missing.
        """
        if self.running is not None and self.running.program.is_alive():
            message = f"the registry already runs at {self.url}"
            raise InvalidRequestError(message)
        java, home = find_java(), fetched(REGISTRY)
        self.directory.mkdir(parents=True, exist_ok=True)
        for _ in range(PORT_TRIES_MAX - 1):
            with suppress(PortTakenError):
                self._launch(java, home)
                return
        self._launch(java, home)

    def stop(self) -> None:
        """End it in good order; a second call does nothing."""
        if self.running is not None:
            self.running.program.stop()
        if self._is_own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _launch(self, java: Path, home: Path) -> None:
        jars = sorted(home.glob("*-runner.jar"))
        if not jars:
            message = "the registry's archive holds no runner"
            raise UnavailableError(message, path=home)
        (self._port,) = free_ports(1)
        self.running = start_guarded(
            [
                *(str(java), "-Xmx512m", "-XX:-UsePerfData"),
                *(f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={self._port}"),
                *("-jar", str(jars[0])),
            ],
            log=self.log,
            scratch=self.directory if self._is_own_directory else None,
            owner=self._owner or Process.current(),
        )
        url = self.url
        await_answer(
            "registry",
            self.running.program,
            self.log,
            lambda: is_registry_answering(url),
            _START_MAX_S,
        )
