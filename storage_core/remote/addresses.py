"""Where a server listens: `shardlog://a:8085,b:8085`, or `shardlogs://…` over TLS.

Several addresses are servers over the same root, of which whoever answers will do, or over roots of
their own that have the shards between them; they say which themselves. Those with a plus between
(`a:8085+b:8085,c:8085`) are over the same root even while one of them does not answer. The text
has no token and no name of a user, which would show up in logs and plans; one that has is refused
and not repeated.
"""

import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from storage_core.errors import InvalidRequestError

PLAIN: Final = "shardlog://"
ENCRYPTED: Final = "shardlogs://"
# As a server prints its own, and browsers have it: a mistake that is told, and no path.
_OF_HTTP: Final = ("http://", "https://")
PORT_DEFAULT: Final = 8085
_PORT_MAX: Final = 65535
_ADDRESSES_MAX: Final = 64
_ADDRESS: Final = re.compile(r"(\[[0-9A-Za-z:.%]+\]|[^\[\]:/?#\s]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The address as it is written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers, and whether they are asked over TLS.

    Attributes:
        addresses: Where they listen.
        is_encrypted: Whether they are asked over TLS.
        group_sizes: How many addresses each group has that is said to be over one root, in their
            order; empty for one each.
    """

    addresses: tuple[Address, ...]
    is_encrypted: bool
    group_sizes: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The servers as they are written."""
        scheme = ENCRYPTED if self.is_encrypted else PLAIN
        return scheme + ",".join(
            "+".join(address.text for address in group.addresses) for group in self.groups
        )

    @property
    def groups(self) -> "tuple[Servers, ...]":
        """Those that are said to be over one root, together."""
        counts = self.group_sizes or (1,) * len(self.addresses)
        ends = list(accumulate(counts))
        pairs = zip(ends, counts, strict=True)
        return tuple(
            Servers(self.addresses[end - count : end], self.is_encrypted, (count,))
            for end, count in pairs
        )

    def with_others(self, others: "Servers") -> "Servers":
        """Return these and others as servers over one root."""
        addresses = tuple(dict.fromkeys((*self.addresses, *others.addresses)))
        return Servers(addresses, self.is_encrypted, (len(addresses),))


def names_servers(root: object) -> bool:
    """Tell whether what stands in the place of a root's path names servers, or is meant to."""
    return isinstance(root, str) and root.startswith((PLAIN, ENCRYPTED, *_OF_HTTP))


def refuse_servers(root: object) -> None:
    """Raise where servers are named by who writes.

    Raises:
        InvalidRequestError: They are; else a directory of that name would be made.
    """
    if names_servers(root):
        message = f"streams are written by the path of their root; {root} can only be read"
        raise InvalidRequestError(message)


def parse_servers(text: str) -> Servers:
    """Return the servers that a text names; one without a scheme is asked without TLS.

    Raises:
        InvalidRequestError: It names none, or has more than addresses.
    """
    if "@" in text:
        message = (
            "a server's address has neither user nor token: name a file with the token by "
            "SHARDLOG_SERVER_TOKEN_FILE"
        )
        raise InvalidRequestError(message)
    is_encrypted = text.startswith(ENCRYPTED)
    groups = [
        [_without_scheme(each.strip(), encrypted=is_encrypted) for each in group.split("+")]
        for group in text.split(",")
    ]
    count = sum(map(len, groups))
    if count > _ADDRESSES_MAX:
        message = f"{count} addresses of servers are more than {_ADDRESSES_MAX}"
        raise InvalidRequestError(message)
    addresses: dict[Address, None] = {}
    sizes = []
    for group in groups:
        named = dict.fromkeys(_address(each) for each in group)
        own = [address for address in named if address not in addresses]
        addresses.update(dict.fromkeys(own))
        sizes += [len(own)] if own else []
    has_groups = any(size > 1 for size in sizes)
    return Servers(tuple(addresses), is_encrypted, tuple(sizes) if has_groups else ())


def _without_scheme(text: str, *, encrypted: bool) -> str:
    """Return an address without its scheme, which stands before the first, and may before others.

    Raises:
        InvalidRequestError: It is a browser's, or another one than that of the first.
    """
    address = text.removeprefix(ENCRYPTED if encrypted else PLAIN)
    if address.startswith(_OF_HTTP):
        message = (
            f"{address[:80]!r} is no address of a server for clients of shardlog: it is "
            f"{PLAIN}HOST:PORT, over TLS {ENCRYPTED}HOST:PORT"
        )
        raise InvalidRequestError(message)
    other = PLAIN if encrypted else ENCRYPTED
    if address.startswith(other):
        message = (
            f"{address[:80]!r}: servers of one list are asked all over TLS, or none: the scheme of "
            "the first is that of all"
        )
        raise InvalidRequestError(message)
    return address.removesuffix("/")


def _address(text: str) -> Address:
    matched = _ADDRESS.fullmatch(text)
    port = PORT_DEFAULT if matched is None or matched[2] is None else int(matched[2])
    if matched is None or not 0 < port <= _PORT_MAX:
        message = f"{text[:80]!r} is no address of a server: host:port, as in a:8085,b:8085"
        raise InvalidRequestError(message)
    return Address(matched[1].strip("[]"), port)
