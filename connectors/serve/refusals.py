"""Refusals: what a request is answered that never comes to a stream."""

from http import HTTPStatus

from storage_core import InvalidRequestError, UnavailableError


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
