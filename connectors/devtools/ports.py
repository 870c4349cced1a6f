"""Free TCP ports of the loopback interface.

They lie below the range from which Linux takes the ports of outgoing connections, unless told
otherwise, so that a killed broker finds its port free when it comes back: clients that keep
knocking at a closed port of that range can be given that very port, and then hold it.

A port that was given out is given to nobody else while this process lives: its server has yet to
listen, or is away for a moment, and another that chose it would pass for it. What says so is a name
among the abstract sockets of the machine, which ends with whoever holds it.
"""

import errno
import secrets
import socket
from itertools import islice
from typing import Final

from storage_core import UnavailableError

LOOPBACK: Final = "127.0.0.1"

_PORTS: Final = range(20_000, 32_768)
_TRIES_MAX: Final = 1_000
_ASK_MAX_S: Final = 5.0


def free_ports(count: int) -> tuple[int, ...]:
    """Return different ports on which nobody listens at this moment, and that nobody has chosen.

    Raises:
        UnavailableError: None were found.
    """
    tried = secrets.SystemRandom().sample(_PORTS, min(_TRIES_MAX, len(_PORTS)))
    free = tuple(islice(filter(_is_chosen, tried), count))
    if len(free) < count:
        message = f"no {count} free ports in {_PORTS.start}..{_PORTS.stop}: stop what listens there"
        raise UnavailableError(message)
    return free


def is_free(port: int) -> bool:
    """Tell whether a server could listen there at this moment."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _is_chosen(port: int) -> bool:
    """Tell whether a free port is ours from now on."""
    if not is_free(port):
        return False
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0shardlog-port-{port}")
    except OSError as error:
        name.close()
        # A system without such names does without.
        return error.errno != errno.EADDRINUSE
    # Open, and nobody's, until the process ends.
    name.detach()
    return True


def is_open(host: str, port: int) -> bool:
    """Tell whether something accepts connections there."""
    try:
        socket.create_connection((host, port), _ASK_MAX_S).close()
    except (OSError, UnicodeError):
        # No name of a host is encoded that cannot be one.
        return False
    return True
