"""One broker and one registry for all processes that share a directory.

The first that needs a server starts it, under a lock, and records it; the others get its address.
With an owner the servers end when the owner does; without one they live until `stop`, but even
then a process killed while it starts them leaves none. $KAFKA_BOOTSTRAP and $SCHEMA_REGISTRY_URL
name servers to use in their place.

`stack.json` beside the servers' directories records of each its address, its process and its
place, so that another process can find and stop it. It is replaced whole.
"""

import json
import os
import pwd
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from connectors.devtools.broker import BROKER
from connectors.devtools.fetch import locked
from connectors.devtools.ports import is_open
from connectors.devtools.process import Process
from connectors.devtools.registry import REGISTRY
from connectors.devtools.server import Server, ServerKind
from storage_core import InvalidRequestError, UnavailableError

KINDS: Final = {kind.name: kind for kind in (BROKER, REGISTRY)}

_DOING: Final = "starting the dev stack"
_RECORD_FILE: Final = "stack.json"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Service:
    """A server that was started."""

    address: str
    process: Process


class DevStack:
    """The servers of one directory. Any process may make one; all methods may wait for it."""

    def __init__(
        self,
        directory: Path,
        *,
        owner: Process | None = None,
        jvm_options: Sequence[str] = (),
        user: int | None = None,
    ) -> None:
        """Name the place; nothing is started yet.

        Args:
            directory: Where the servers live and are recorded.
            owner: Whose end is theirs; None lets them live on.
            jvm_options: What their JVMs are told besides.
            user: Who uses and ends them, by number; whoever runs this process unless given.
        """
        self.directory = directory.absolute()
        self._owner = owner
        self._user = os.geteuid() if user is None else user
        self._jvm_options = tuple(jvm_options)

    def address(self, kind: ServerKind) -> str:
        """Return the address of a server that answers, starting one if need be.

        Raises:
            UnavailableError: It cannot be started, fetched or reached.
            InvalidRequestError: A JVM or PySpark is missing; or another user runs servers here.
        """
        address = os.environ.get(kind.variable)
        if address:
            _check_reachable(kind.variable, address)
            return address
        with locked(self.directory, _DOING):
            running = self._own_services().get(kind.name)
            return self._start(kind) if running is None else running.address

    def services(self) -> dict[str, Service]:
        """Return the recorded servers whose processes are alive."""
        recorded = read_record(self.directory)
        return {name: found for name, found in recorded.items() if found.process.is_alive()}

    def _own_services(self) -> dict[str, Service]:
        """Return the servers that run, all of which are ours to use and to end."""
        running = self.services()
        for name, service in running.items():
            user = service.process.user()
            if user is not None and user != self._user:
                raise _not_ours(self.directory, KINDS[name], service.address, user)
        return running

    def stop(self) -> dict[str, Service]:
        """End all recorded servers and remove their data; return those that ran.

        Raises:
            InvalidRequestError: Another user runs servers here; none is ended.
        """
        with locked(self.directory, _DOING):
            ended = self._own_services()
            for name, service in read_record(self.directory).items():
                service.process.stop()
                shutil.rmtree(self.directory / name, ignore_errors=True)
            write_record(self.directory, {})
        return ended

    def _start(self, kind: ServerKind) -> str:
        place, options = self.directory / kind.name, self._jvm_options
        server = Server(kind, place, owner=self._owner, jvm_options=options)
        shutil.rmtree(server.directory, ignore_errors=True)
        server.start()
        assert server.running is not None, "it was just started"
        service = Service(server.address, server.running.program)
        write_record(self.directory, {**read_record(self.directory), kind.name: service})
        if self._owner is None:
            server.running.set_free()
        return service.address


def _not_ours(directory: Path, kind: ServerKind, address: str, user: int) -> InvalidRequestError:
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    message = (
        f"the {kind.name} at {address} is that of user {name}: set SHARDLOG_STATE to a directory "
        f"of your own to have one that is yours, or {kind.variable}={address} to use it"
    )
    return InvalidRequestError(message, path=directory)


def read_record(directory: Path) -> dict[str, Service]:
    """Return the recorded servers by name, alive or not.

    Raises:
        InvalidRequestError: The record is not one of ours.
    """
    path = directory / _RECORD_FILE
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        return {
            KINDS[name].name: Service(facts["address"], Process(**facts["process"]))
            for name, facts in recorded.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = "not a record of `shardlog dev`: end its processes by hand, then remove it"
        raise InvalidRequestError(message, path=path) from error


def write_record(directory: Path, services: Mapping[str, Service]) -> None:
    """Put a record in the place of the last."""
    recorded = {name: asdict(service) for name, service in services.items()}
    draft = directory / f"{_RECORD_FILE}.draft"
    draft.write_text(json.dumps(recorded, indent=1), encoding="utf-8")
    draft.replace(directory / _RECORD_FILE)


def _check_reachable(variable: str, value: str) -> None:
    for address in value.split(","):
        try:
            parts = urlsplit(address if "://" in address else f"//{address}")
            host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            host, port = "", None
        if port is None:
            message = f"{variable}={value}: {address!r} is not host:port"
            raise InvalidRequestError(message)
        if is_open(host, port):
            return
    message = f"{variable}={value} does not answer: unset it to have one started here"
    raise UnavailableError(message)
