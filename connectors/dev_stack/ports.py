"""Free TCP ports of the loopback interface.

They lie below the range from which the kernel takes the ports of outgoing connections, so that
a killed broker finds its port free when it comes back: clients that keep knocking at a closed
port of that range can be given that very port, and then hold it.
"""

import secrets
import socket
from pathlib import Path
from typing import Final

from storage_core import UnavailableError

LOOPBACK: Final = "127.0.0.1"

_LOWEST: Final = 20_000
_EPHEMERAL_DEFAULT: Final = 32_768
_TRIES_MAX: Final = 1_000
_RANGE_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> tuple[int, ...]:
    """Return different ports on which nobody listens at this moment.

    Raises:
        UnavailableError: None were found.
    """
    end = first_ephemeral_port(_RANGE_FILE)
    found: list[int] = []
    for _ in range(_TRIES_MAX):
        port = _LOWEST + secrets.randbelow(end - _LOWEST)
        if port not in found and is_free(port):
            found.append(port)
        if len(found) == count:
            return tuple(found)
    message = f"no {count} free ports between {_LOWEST} and {end}: stop what listens there"
    raise UnavailableError(message)


def is_free(port: int) -> bool:
    """Tell whether a server could listen there at this moment."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def first_ephemeral_port(range_file: Path) -> int:
    """Return where the kernel's range for outgoing connections begins."""
    try:
        first = int(range_file.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _EPHEMERAL_DEFAULT
    # A machine that gives all its ports away leaves no quiet range.
    return first if first > _LOWEST + 1_000 else _EPHEMERAL_DEFAULT
