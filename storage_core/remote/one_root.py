"""Servers over one root, where a call of several would be of the one that is asked first."""

from storage_core.errors import InvalidRequestError
from storage_core.platform.clock import SystemClock
from storage_core.remote.addresses import parse_servers
from storage_core.remote.client import ServerClient
from storage_core.remote.options import ServerOptions


def refuse_several_roots(client: ServerClient, why: str, stream: str | None = None) -> str:
    """Return the id of the root that servers are over; refuse those over several.

    Calls that carry the id (`of_root`) are refused by a server that answers later from another.

    Args:
        client: What asks them.
        why: What takes one root, as a clause.
        stream: The stream that is asked for.

    Raises:
        InvalidRequestError: They are over several.
        UnavailableError: None answers.
    """
    roots = client.roots()
    if len(set(roots.values())) > 1:
        listed = ", ".join(f"{address} over root {root}" for address, root in roots.items())
        message = (
            f"the servers are over several roots, and {why}: {listed}; name the servers of one"
        )
        raise InvalidRequestError(message, stream=stream)
    return next(iter(roots.values()))


def refuse_servers_of_several_roots(servers: str, why: str) -> None:
    """Do the same with addresses that nobody has a client of."""
    client = ServerClient(parse_servers(servers), ServerOptions(), SystemClock())
    try:
        refuse_several_roots(client, why)
    finally:
        client.close()
