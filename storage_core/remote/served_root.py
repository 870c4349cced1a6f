"""A root as a server says it is: its id, and the streams below it."""

from dataclasses import dataclass

from storage_core.platform.clock import Clock, SystemClock
from storage_core.remote.addresses import parse_servers
from storage_core.remote.client import ServerClient, Subject
from storage_core.remote.options import ServerOptions


@dataclass(frozen=True, slots=True)
class ServedRoot:
    """What servers are over.

    Attributes:
        servers: Their addresses, as they are written.
        root_id: The root's random id.
        streams: The names of its streams, sorted.
    """

    servers: str
    root_id: str
    streams: tuple[str, ...]


def ask_root(
    servers: str, options: ServerOptions | None = None, clock: Clock | None = None
) -> ServedRoot:
    """Return what servers say of their root.

    Raises:
        InvalidRequestError: An address, the token or a certificate is wrong.
        UnavailableError: No server answers.
    """
    named = parse_servers(servers)
    client = ServerClient(named, options or ServerOptions(), clock or SystemClock())
    try:
        streams, root_id = client.result_and_root("streams", Subject())
    finally:
        client.close()
    return ServedRoot(named.text, root_id or "", tuple(sorted(streams)))
