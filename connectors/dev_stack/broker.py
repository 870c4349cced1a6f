"""A real Kafka broker: one KRaft node in a JVM of its own.

    <directory>/server.properties  log4j2.properties  broker.log  data/

It keeps its ports and its data while the `Broker` lives, through `kill`, `restart` and a later
`start`; `stop` removes the data. It never outlives its owner (guard.py). Not for use by several
threads at a time.
"""

import base64
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from connectors.dev_stack.answers import is_broker_answering
from connectors.dev_stack.broker_settings import LOGGING, server_properties
from connectors.dev_stack.bundles import KAFKA
from connectors.dev_stack.child import (
    GuardedProcess,
    last_telling_line,
    run_guarded,
    start_guarded,
)
from connectors.dev_stack.jars import fetched
from connectors.dev_stack.java import find_java
from connectors.dev_stack.ports import LOOPBACK, free_ports
from connectors.dev_stack.process import Process
from connectors.dev_stack.startup import PORT_TRIES_MAX, PortTakenError, await_answer
from storage_core import InvalidRequestError, UnavailableError

_FORMAT_MAX_S: Final = 60.0
_CLUSTER_ID_BYTES: Final = 16


class Broker:
    """A broker that can be started, killed, restarted and stopped; stopped when left."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        owner: Process | None = None,
    ) -> None:
        """Choose places; nothing is started yet.

        Args:
            directory: Where it lives; a temporary one by default, removed by `stop`.
            properties: Broker settings by Kafka's names, over those of the dev stack.
            owner: Whose end is the broker's; this process by default.
        """
        self.directory = Path(directory or tempfile.mkdtemp(prefix="shardlog-broker-")).absolute()
        self.log = self.directory / "broker.log"
        self.running: GuardedProcess | None = None
        self._data = self.directory / "data"
        self._is_own_directory = directory is None
        self._extra = dict(properties or {})
        self._owner = owner
        self._ports: tuple[int, int] | None = None

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
    def bootstrap(self) -> str:
        """Return its address, for clients' `bootstrap.servers`."""
        if self._ports is None:
            message = "the broker has no address yet: start it"
            raise InvalidRequestError(message)
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def process(self) -> Process | None:
        """Return the JVM that runs, or None."""
        if self.running is None or not self.running.program.is_alive():
            return None
        return self.running.program

    def start(self) -> None:
        """Start it and return when it answers; on the same data and address if it ran before.

        Raises:
            UnavailableError: It did not start, or its jars cannot be fetched.
            InvalidRequestError: It runs, or a JVM or PySpark is missing.
        """
        if self.process is not None:
            message = f"the broker already runs at {self.bootstrap}"
            raise InvalidRequestError(message)
        java = [str(find_java()), "-cp", f"{fetched(KAFKA)}/*", *self._options()]
        for _ in range(PORT_TRIES_MAX - 1):
            with suppress(PortTakenError):
                self._start_once(java)
                return
        self._start_once(java)

    def kill(self) -> None:
        """End it as kill -9 does; its data and address stay."""
        if self.running is not None:
            self.running.program.kill()

    def restart(self) -> None:
        """Start it again on the same data and address, ending it in good order if it runs."""
        if self.process is not None:
            self.process.stop()
        self.start()

    def stop(self) -> None:
        """End it in good order and remove its data; a second call does nothing."""
        if self.running is not None:
            self.running.program.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _scratch(self) -> Path:
        return self.directory if self._is_own_directory else self._data

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _options(self) -> list[str]:
        logging = (self.directory / "log4j2.properties").as_uri()
        # A killed JVM would leave its performance counters in the system's temporary directory.
        return ["-Xmx512m", "-XX:-UsePerfData", f"-Dlog4j2.configurationFile={logging}"]

    def _start_once(self, java: list[str]) -> None:
        known, ports = self._ports, self._ports or _two(free_ports(2))
        self._write_settings(ports)
        self._format(java)
        self._ports = ports
        try:
            self._launch(java)
        except PortTakenError:
            # Clients know the address of a broker that has run; one that has not may move.
            self._ports = known
            raise

    def _write_settings(self, ports: tuple[int, int]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = server_properties(ports, self._data, self._extra)
        self._properties.write_text(text, encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(LOGGING, encoding="utf-8")

    def _format(self, java: list[str]) -> None:
        """Have Kafka's own tool prepare an empty data directory."""
        made = self._data / "meta.properties"
        if made.exists():
            return
        cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(_CLUSTER_ID_BYTES))
        tool = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "kafka.tools.StorageTool", "format"]
        # An id must not begin with a dash: it would be taken for an option.
        arguments = ["-t", "k" + cluster_id.decode()[1:22], "-c", str(self._properties)]
        run_guarded(
            [*java, *tool, *arguments],
            log=self.log,
            scratch=self._scratch,
            owner=self._owner or Process.current(),
            timeout_s=_FORMAT_MAX_S,
        )
        if not made.exists():
            message = f"the broker's data cannot be prepared: {last_telling_line(self.log)}"
            raise UnavailableError(message, path=self.log)

    def _launch(self, java: list[str]) -> None:
        self.running = start_guarded(
            [*java, "kafka.Kafka", str(self._properties)],
            log=self.log,
            scratch=self._scratch,
            owner=self._owner or Process.current(),
        )
        address = self.bootstrap
        await_answer("broker", self.running.program, self.log, lambda: is_broker_answering(address))


def _two(ports: tuple[int, ...]) -> tuple[int, int]:
    broker, controller = ports
    return broker, controller
