"""Modules that few need are loaded with their first use, when the system may refuse it."""

from collections.abc import Iterator
from contextlib import contextmanager

from storage_core.errors import UnavailableError


@contextmanager
def loading(stream: str) -> Iterator[None]:
    """Give what keeps a module from being loaded a kind; with the next use it is tried again.

    Raises:
        UnavailableError: The process may open no more files, has no memory, or the disk fails.
    """
    try:
        yield
    except (OSError, MemoryError) as error:
        message = f"a module cannot be loaded now: {str(error) or 'there is no memory'}"
        raise UnavailableError(message, stream=stream) from error
