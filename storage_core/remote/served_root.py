"""A root as a server says it is: its id, and the streams below it."""

from dataclasses import dataclass

from storage_core.platform.clock import Clock, SystemClock
from storage_core.remote.addresses import parse_servers
from storage_core.remote.client import ServerClient, Subject
from storage_core.remote.finding import find_roots
from storage_core.remote.options import ServerOptions


@dataclass(frozen=True, slots=True)
class ServedRoot:
    """What servers are over.

    Attributes:
        servers: Their addresses, as they are written.
        root_id: The root's random id; of several roots all, with commas between.
        streams: The names of the streams, sorted.
    """

    servers: str
    root_id: str
    streams: tuple[str, ...]


def ask_root(
    servers: str, options: ServerOptions | None = None, clock: Clock | None = None
) -> ServedRoot:
    """Return what servers say of their root, or of their roots.

    Raises:
        InvalidRequestError: An address, the token or a certificate is wrong.
        UnavailableError: No server answers, or of several roots one does not.
    """
    named = parse_servers(servers)
    options, clock = options or ServerOptions(), clock or SystemClock()
    groups = named.groups
    served, silent = find_roots(groups, options, clock) if len(groups) > 1 else ([], [])
    roots = sorted({root for _, root, _ in served})
    if len(roots) > 1 and silent:
        raise silent[0]
    if roots and not silent:
        names = {name for _, _, names in served for name in names}
        return ServedRoot(named.text, ",".join(roots), tuple(sorted(names)))
    client = ServerClient(named, options, clock)
    try:
        streams, root_id = client.result_and_root("streams", Subject())
    finally:
        client.close()
    return ServedRoot(named.text, root_id or "", tuple(sorted(streams)))
