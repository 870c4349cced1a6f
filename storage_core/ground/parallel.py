"""The same thing done to several things at once: the caller takes part, threads help.

What no thread has begun yet the caller does itself. So nothing depends on a thread: where none
can be had, because the system has no more, they were stopped or the interpreter is ending, the
caller does it all. (A thing whose thread could not be started may then be done twice.) Behind a
failure nothing more is begun, and nothing is under way any more once the call is left.

For whoever has several shards to see to. Any thread may call.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Self, TypeVar

_A = TypeVar("_A")
_B = TypeVar("_B")


class Threads:
    """Threads that are started when they are needed, and go with `stop` or the context."""

    def __init__(self, at_once_max: int) -> None:
        """Let a call do so many things at once, its own thread among them."""
        self._helpers_max = at_once_max - 1
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._is_stopped = False

    def each(self, do: Callable[[_A], _B], things: Sequence[_A]) -> list[_B]:
        """Do something to each of several things and return the answers in their order.

        Raises:
            BaseException: What `do` raised, in the caller's thread or for the first of the
                things.
        """
        if len(things) <= 1:
            return [do(thing) for thing in things]
        begun = self._begun(do, things[1:])
        try:
            own = _done_here(do, things, begun)
            return [own[at] if at in own else begun[at].result() for at in range(len(things))]
        finally:
            _leave(begun)

    def stop(self) -> None:
        """Let go of the threads for good; a call under way goes on in its caller's."""
        with self._lock:
            self._is_stopped = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _begun(self, do: Callable[[_A], _B], things: Sequence[_A]) -> dict[int, Future[_B]]:
        """Hand over as many things as threads take, counted from 1."""
        begun: dict[int, Future[_B]] = {}
        with self._lock, suppress(RuntimeError):
            # Raised where the interpreter is ending, or the system has no more threads.
            if self._pool is None and not self._is_stopped:
                self._pool = ThreadPoolExecutor(self._helpers_max, "shardlog")
            for at, thing in enumerate(things, 1):
                if self._pool is not None:
                    begun[at] = self._pool.submit(do, thing)
        return begun


def _done_here(
    do: Callable[[_A], _B], things: Sequence[_A], begun: dict[int, Future[_B]]
) -> dict[int, _B]:
    """Do what no thread has begun, until one has failed; return the answers."""
    own = {}
    for at, thing in enumerate(things):
        if at not in begun or begun[at].cancel():
            own[at] = do(thing)
        elif begun[at].done() and begun[at].exception() is not None:
            break
    return own


def _leave(begun: dict[int, Future[_B]]) -> None:
    """Let nothing more begin, and wait for what has."""
    wait([future for future in begun.values() if not future.cancel()])
    # A failure that is kept would keep, by its trace, what was under way.
    begun.clear()
