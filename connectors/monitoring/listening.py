"""The socket that a server of ours listens on; what is wrong with its address is one line."""

import errno
import socket
from typing import Final

from connectors.settings.operations_settings import split_address
from storage_core import InvalidRequestError, UnavailableError

# So many connections may wait to be accepted.
_BACKLOG: Final = 128


def bound_socket(listen: str, option: str) -> socket.socket:
    """Return a socket that listens.

    Args:
        listen: Host and port; port 0 for any.
        option: What the address was named by, for the error.

    Raises:
        InvalidRequestError: It is no address of this machine, or none that may be taken.
        UnavailableError: Another process has it.
    """
    host, port = split_address(listen)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        message = f"{option}: {listen} is no address of this machine: {error}"
        raise InvalidRequestError(message) from error
    try:
        # A port that is only waiting for its last connections' end is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        why = (error.strerror or str(error)).lower()
        message = f"{option}: {listen} cannot be had: {why}; take another, or port 0 for any"
        is_taken = error.errno == errno.EADDRINUSE
        raise (UnavailableError if is_taken else InvalidRequestError)(message) from error
    return listener
