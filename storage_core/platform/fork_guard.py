"""What a forked child leaves alone: all that its parent has open.

A fork copies memory, descriptors and flocks, and no thread but one. A child that wrote through
its parent's writer would write over it in the log that they share; one that closed a store, if
only by forgetting it, would clear away files of its parent or wait for threads that it has not.
So what is open is registered here. In a child each is told before anything else runs, and
refuses every call from then on; nothing is closed there.

`multiprocessing` forks by default on Linux up to Python 3.13.
"""

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from storage_core.errors import ClosedError


class Open(Protocol):
    """Something that belongs to the process that opened it."""

    def leave_to_parent(self, process: int) -> None:
        """Be of no use from now on: this process is a fork of the one that opened it."""
        ...


class _Opened:
    """What this process has open."""

    def __init__(self) -> None:
        self._things: WeakSet[Open] = WeakSet()
        self._process = os.getpid()
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def add(self, thing: Open) -> None:
        self._things.add(thing)

    def _leave_to_parent(self) -> None:
        things, self._things = list(self._things), WeakSet()
        process, self._process = self._process, os.getpid()
        for thing in things:
            thing.leave_to_parent(process)


@cache
def _opened() -> _Opened:
    return _Opened()


def register(thing: Open) -> None:
    """Let a forked child know that it must leave this alone."""
    _opened().add(thing)


def opened_elsewhere(
    process: int,
    *,
    stream: str | None = None,
    shard: int | None = None,
    path: Path | None = None,
) -> ClosedError:
    """Return the error that a fork of the process gets that opened something."""
    message = (
        f"it was opened in process {process}, of which this one is a fork: open it again here "
        "to read; to write, start processes by spawn"
    )
    return ClosedError(message, stream=stream, shard=shard, path=path)


class Home:
    """Where something was opened: held by what has nothing but to refuse in a fork."""

    def __init__(self, stream: str | None = None, shard: int | None = None) -> None:
        """Opened here and now."""
        self._stream = stream
        self._shard = shard
        self._process: int | None = None
        register(self)

    @property
    def is_elsewhere(self) -> bool:
        """Tell whether this process is a fork of the one it was opened in."""
        return self._process is not None

    def refuse_elsewhere(self) -> None:
        """Raise in a fork."""
        if self._process is not None:
            raise opened_elsewhere(self._process, stream=self._stream, shard=self._shard)

    def leave_to_parent(self, process: int) -> None:
        """Refuse from now on."""
        self._process = process


def keep_for_ever(thing: object) -> None:
    """Never end an object of this process, not even at its exit."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
