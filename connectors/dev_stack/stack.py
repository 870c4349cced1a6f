"""One broker and one registry for all who share a directory: the command line, a run of tests.

Whoever asks first starts a server, under a lock, and records it; the others get its address.
With an owner the servers end when the owner does; without one they live until `stop`, but even
then a process killed while it starts them leaves none. $KAFKA_BOOTSTRAP and $SCHEMA_REGISTRY_URL
name servers to use in their place.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from connectors.dev_stack.answers import is_broker_answering, is_open, is_registry_answering
from connectors.dev_stack.broker import Broker
from connectors.dev_stack.file_lock import locked
from connectors.dev_stack.ivy import FETCH_MAX_S
from connectors.dev_stack.process import Process
from connectors.dev_stack.registry import Registry
from connectors.dev_stack.state import Service, read_state, write_state
from storage_core import InvalidRequestError, UnavailableError

BROKER: Final = "broker"
REGISTRY: Final = "registry"
BROKER_VARIABLE: Final = "KAFKA_BOOTSTRAP"
REGISTRY_VARIABLE: Final = "SCHEMA_REGISTRY_URL"

# Whoever holds the lock may be fetching.
_LOCK_MAX_S: Final = 2 * FETCH_MAX_S


class DevStack:
    """The servers of one directory. Any process may make one; all methods may wait for it."""

    def __init__(
        self,
        directory: Path,
        *,
        owner: Process | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Name the place; nothing is started yet.

        Args:
            directory: Where the servers live and are recorded.
            owner: Whose end is theirs; None lets them live on.
            environment: Where the names of other servers are looked up.
        """
        self.directory = directory.absolute()
        self._owner = owner
        self._environment = environment

    def broker(self) -> str:
        """Return the address of a broker that answers, starting one if need be.

        Raises:
            UnavailableError: It cannot be started, fetched or reached.
            InvalidRequestError: A JVM or PySpark is missing.
        """
        given = self._environment.get(BROKER_VARIABLE)
        if given:
            _check_given(BROKER_VARIABLE, given, given.split(","))
            return given
        with self._locked():
            running = self._running(BROKER)
            if running is not None:
                return running.address
            broker = Broker(self.directory / BROKER, owner=self._owner)
            shutil.rmtree(broker.directory, ignore_errors=True)
            broker.start()
            return self._record(BROKER, broker, broker.bootstrap)

    def registry(self) -> str:
        """Return the URL of a registry that answers, starting one if need be.

        Raises:
            UnavailableError: It cannot be started, fetched or reached.
            InvalidRequestError: A JVM or PySpark is missing.
        """
        given = self._environment.get(REGISTRY_VARIABLE)
        if given:
            addresses = [_host_and_port(url) for url in given.split(",")]
            _check_given(REGISTRY_VARIABLE, given, addresses)
            return given
        with self._locked():
            running = self._running(REGISTRY)
            if running is not None:
                return running.address
            registry = Registry(self.directory / REGISTRY, owner=self._owner)
            registry.start()
            return self._record(REGISTRY, registry, registry.url)

    def services(self) -> dict[str, Service]:
        """Return the recorded servers whose processes are alive."""
        recorded = read_state(self.directory)
        return {name: found for name, found in recorded.items() if found.process.is_alive()}

    def stop(self) -> dict[str, Service]:
        """End all recorded servers and remove their data; return those that ran."""
        with self._locked():
            recorded = read_state(self.directory)
            ended = {name: found for name, found in recorded.items() if found.process.is_alive()}
            for service in recorded.values():
                service.process.stop()
                shutil.rmtree(service.directory, ignore_errors=True)
            write_state(self.directory, {})
        return ended

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.directory / "stack.lock", "starting the dev stack", _LOCK_MAX_S)

    def _running(self, name: str) -> Service | None:
        found = read_state(self.directory).get(name)
        return found if found is not None and found.process.is_alive() else None

    def _record(self, name: str, server: Broker | Registry, address: str) -> str:
        assert server.running is not None, "it was just started"
        service = Service(address, server.running.program, server.directory)
        write_state(self.directory, {**read_state(self.directory), name: service})
        if self._owner is None:
            server.running.set_free()
        return address


def is_answering(name: str, address: str) -> bool:
    """Tell whether a server of the stack serves."""
    return (is_broker_answering if name == BROKER else is_registry_answering)(address)


def _check_given(variable: str, given: str, addresses: list[str]) -> None:
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not port.isdecimal():
            message = f"{variable}={given}: {address!r} is not host:port"
            raise InvalidRequestError(message)
        if is_open(host.strip("[]"), int(port)):
            return
    message = f"{variable}={given} does not answer: unset it to have one started here"
    raise UnavailableError(message)


def _host_and_port(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.hostname}:{port}"
