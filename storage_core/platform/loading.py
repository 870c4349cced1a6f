"""Modules that few need are loaded with their first use, when the system may refuse it."""

import signal
import threading
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


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until a module is loaded.

    NOTE: DuckDB (2.0) loses one that comes meanwhile, makes an ImportError of it, or aborts.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        # Python hears of signals in the main thread alone.
        yield
        return
    signals: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if signals:
            signal.raise_signal(signal.SIGINT)
