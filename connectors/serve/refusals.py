"""Refusals: what a request is answered that never comes to a stream, or that the server lacks."""

import errno
from http import HTTPStatus
from typing import Final

from connectors.serve.settings import Bounds
from storage_core import InvalidRequestError, ShardlogError, UnavailableError
from storage_core.answering import OpenFilesError, ReadTooLargeError

# What the system says where it is short of files or memory.
SHORT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class RefusedError(InvalidRequestError):
    """A request that is wrong as HTTP, or may not be made; it has a status of its own.

    Attributes:
        status: The status of the answer.
        closes: Whether what follows on the connection cannot be told apart any more.
    """

    def __init__(self, status: int, message: str, *, closes: bool = False) -> None:
        """Keep the status."""
        super().__init__(message)
        self.status = HTTPStatus(status)
        self.closes = closes


class BusyError(UnavailableError):
    """The server has as much to do as it may have; the same request may succeed later."""


def limit_reached(usage: str) -> str:
    """Return what a client is told of a limit that may soon have room again."""
    return f"{usage}, the most that this server allows; try again"


def no_room() -> BusyError:
    """Return what a client is told for whose request there is no room beside those of others."""
    return BusyError(limit_reached("requests hold all the memory there is for them"))


def too_many_connections(bounds: Bounds) -> BusyError:
    """Return what a client is told whose connection is one too many."""
    return BusyError(limit_reached(f"{bounds.connections} connections are open"))


def client_error(error: ShardlogError, bounds: Bounds) -> ShardlogError:
    """Return an error as a client is told it: the server's own bounds, and what it is short of."""
    if isinstance(error, ReadTooLargeError):
        message = (
            f"the rows come to more than the {bounds.read_bytes} bytes that this server gathers "
            "(--read-mib-max); ask for fewer ids, times, columns or rows an id, or take scan or "
            "for_each"
        )
        return InvalidRequestError(message, stream=error.stream, shard=error.shard)
    cause = error.__cause__
    is_short = isinstance(cause, OSError) and cause.errno in SHORT
    if not is_short and not isinstance(error, OpenFilesError):
        return error
    message = f"the server is short of open files or memory: {error.message}"
    return UnavailableError(message, stream=error.stream, shard=error.shard, path=error.path)
