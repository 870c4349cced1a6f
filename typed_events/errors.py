"""What is wrong with a command. Each becomes a status of its answer."""

from storage_core import InvalidRequestError, ShardlogError


class CommandError(InvalidRequestError):
    """The command cannot be understood, or asks for what cannot be: BadRequest."""


class StaleCheckpointError(CommandError):
    """The log is no more what a subscriber was told of: it was restored, or made anew."""


class ExpiredEventsError(CommandError):
    """Events expired before a subscriber was told of them; `start` and `end` say which."""


class NotFoundError(InvalidRequestError):
    """There is no such type, or nothing remembered of that name: NotFound."""


class ConflictError(ShardlogError):
    """The context has not as many events as EXPECT says: Conflict."""


class BusyError(ShardlogError):
    """Too many commands wait already: Busy."""
