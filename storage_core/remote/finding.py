"""Which roots servers are over, as they say themselves, and whether these can be read as one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

from storage_core.errors import ForeignDataError, UnavailableError
from storage_core.platform.clock import Clock
from storage_core.platform.threads import Threads
from storage_core.protocol import StreamFacts
from storage_core.remote.addresses import Servers
from storage_core.remote.client import ServerClient, Subject
from storage_core.remote.options import ServerOptions
from storage_core.remote.stream_client import StreamClient

T = TypeVar("T")
Silent = tuple[Servers, UnavailableError]

# A server that is asked what it has answers at once, or is silent.
_SILENT_AFTER: Final = timedelta(seconds=10)
_AT_ONCE_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ServedStream:
    """What servers say who they are.

    Attributes:
        servers: Their addresses.
        root: The root's id.
        facts: What the stream is there; None where there is none of that name.
    """

    servers: Servers
    root: str
    facts: StreamFacts | None


def find_roots(
    groups: Sequence[Servers], options: ServerOptions, clock: Clock
) -> tuple[list[tuple[Servers, str, Sequence[str]]], list[UnavailableError]]:
    """Ask servers for the id of their root and its streams; return those that are silent, too.

    Raises:
        ShardlogError: One refuses: the token, or a certificate, is wrong, or it is no server.
    """

    def ask_one(client: ServerClient, servers: Servers) -> tuple[Servers, str, Sequence[str]]:
        names, root = client.result_and_root("streams", Subject())
        return servers, root or "", names

    answers = _ask_all(groups, options, clock, ask_one)
    served = [answer for answer in answers if not isinstance(answer, UnavailableError)]
    return served, [answer for answer in answers if isinstance(answer, UnavailableError)]


def find(
    groups: Sequence[Servers], name: str, options: ServerOptions, clock: Clock
) -> tuple[list[ServedStream], list[Silent]]:
    """Ask servers who they are; return those that answer, and those that do not.

    Raises:
        ShardlogError: As of `find_roots`.
    """

    def ask_one(client: ServerClient, servers: Servers) -> ServedStream:
        names, root = client.result_and_root("streams", Subject())
        facts = StreamClient.opened(client, name, None)[1] if name in names else None
        return ServedStream(servers, root or "", facts)

    answers = _ask_all(groups, options, clock, ask_one)
    served = [answer for answer in answers if isinstance(answer, ServedStream)]
    silent = [
        (servers, answer)
        for servers, answer in zip(groups, answers, strict=True)
        if isinstance(answer, UnavailableError)
    ]
    return served, silent


def _ask_all(
    groups: Sequence[Servers],
    options: ServerOptions,
    clock: Clock,
    ask: Callable[[ServerClient, Servers], T],
) -> list[T | UnavailableError]:
    """Ask all servers at once; return the answer of each, or why there is none."""

    def answer(servers: Servers) -> T | UnavailableError:
        client = ServerClient(servers, impatient(options), clock)
        try:
            return ask(client, servers)
        except UnavailableError as error:
            return error
        finally:
            client.close()

    return Threads(_AT_ONCE_MAX).map(answer, list(groups))


def impatient(options: ServerOptions) -> ServerOptions:
    """Return how servers are asked that may be silent while others answer."""
    return replace(options, retry_for=timedelta(0), timeout=min(options.timeout, _SILENT_AFTER))


def refuse_other_topics(
    first: StreamFacts, first_servers: str, facts: StreamFacts, servers: str
) -> None:
    """Refuse a root whose stream is no copy of the topic that another's is.

    Raises:
        ForeignDataError: It is not, or its records became other rows.
    """
    own, other = first.origin, facts.origin
    if own is None or other is None:
        message = (
            f"{first_servers} and {servers} are over roots of their own, and only streams "
            "that are copies of one topic are read together: name the servers of one root"
        )
        raise ForeignDataError(message, stream=facts.name)
    if own.topic_id != other.topic_id or own.topic != other.topic:
        message = (
            f"{first_servers} has a copy of topic {own.topic!r} (id {own.topic_id}), "
            f"{servers} one of {other.topic!r} (id {other.topic_id})"
        )
        raise ForeignDataError(message, stream=facts.name)
    if own != other or first.options.unit != facts.options.unit:
        message = (
            f"{first_servers} and {servers} made other rows of the same records: their "
            "streams differ in primary, secondary, key_mode, value_format or unit"
        )
        raise ForeignDataError(message, stream=facts.name)
