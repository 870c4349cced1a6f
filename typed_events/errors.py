"""What is wrong with a command. Each becomes a status of its answer."""

from storage_core import InvalidRequestError, ShardlogError


class CommandError(InvalidRequestError):
    """The command cannot be understood, or asks for what cannot be: BadRequest."""


class NotFoundError(InvalidRequestError):
    """There is no such type, or nothing remembered of that name: NotFound."""


class ConflictError(ShardlogError):
    """The context has not as many events as EXPECT says: Conflict."""


class BusyError(ShardlogError):
    """Too many commands wait already: Busy."""
