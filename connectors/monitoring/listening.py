"""The socket that a server of ours listens on; what is wrong with its address is one line."""

import errno
import socket
from typing import Any, Final

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
    listener, address = _socket_for(listen, option)
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


def check_host(listen: str, option: str) -> None:
    """Refuse an address that is none of this machine; its port may be another process's by now.

    Args:
        listen: Host and port.
        option: What the address was named by, for the error.

    Raises:
        InvalidRequestError: It is none.
    """
    host, _ = split_address(listen)
    tried, address = _socket_for(f"[{host}]:0", option, named=listen)
    with tried:
        try:
            tried.bind(address)
        except OSError as error:
            raise _none_of_ours(listen, option, error) from error


def _socket_for(listen: str, option: str, named: str = "") -> tuple[socket.socket, Any]:
    host, port = split_address(listen)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.socket(family, kind, protocol), address
    except (OSError, UnicodeError) as error:
        raise _none_of_ours(named or listen, option, error) from error


def _none_of_ours(listen: str, option: str, error: Exception) -> InvalidRequestError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    message = f"{option}: {listen} is no address of this machine: {reason.lower()}"
    return InvalidRequestError(message)
