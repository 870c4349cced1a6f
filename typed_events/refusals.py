"""Errors as answers: what a caller gets in place of an exception."""

import logging
from typing import Final

from storage_core import ClosedError, InvalidRequestError, ShardlogError, UnavailableError
from typed_events.answer import Answer, Status
from typed_events.errors import BusyError, ConflictError, NotFoundError

# A message may be a header of an answer, of which clients take 64 KiB as in a URL.
_MESSAGE_MAX: Final = 2000
_log = logging.getLogger(__name__)
# The first that fits holds.
_STATUSES: Final[tuple[tuple[type[ShardlogError], Status], ...]] = (
    (NotFoundError, Status.NOT_FOUND),
    (ConflictError, Status.CONFLICT),
    (BusyError, Status.BUSY),
    (UnavailableError, Status.BUSY),
    # A server that stops; nothing was stored, and another one may answer soon.
    (ClosedError, Status.BUSY),
    (InvalidRequestError, Status.BAD_REQUEST),
)


def status_of(error: BaseException) -> Status:
    """Return the status that an error is answered with."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return Status.INTERNAL_ERROR


def refusal(error: BaseException) -> Answer:
    """Return the answer to a command that failed: one line; what nobody expected is logged."""
    return Answer(status_of(error), message_of(error))


def message_of(error: BaseException) -> str:
    """Return the line about an error; one that is none of the log's is logged with its trace."""
    if isinstance(error, ShardlogError):
        line = " ".join(str(error).split("\n"))
        return line if len(line) <= _MESSAGE_MAX else f"{line[: _MESSAGE_MAX - 1]}…"
    _log.error("a command has failed", exc_info=error)
    return f"internal error, see the server's log: {type(error).__name__}"
