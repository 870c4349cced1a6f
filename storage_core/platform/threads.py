"""The same thing done to several things at once: the caller takes part, threads help.

Each thing is begun once, in order, by whoever is free first. So nothing depends on a thread:
where none can be had, because the system has no more, others have them all or the interpreter is
ending, the caller does it all; a thread that comes late finds nothing to do. Behind a failure
nothing more is begun, and nothing is under way any more once the call is left; only a second
interruption leaves at once.

For whoever has several shards to see to. Any thread may call.

IMPORTANT: threads, locks and waits are those of C, which an exception out of a signal handler
comes before or behind. `threading.Thread.start`, `Condition` and the pools of
`concurrent.futures` are Python: cut between two of their lines they keep a lock for good, and
whoever asks for it then, the new thread too, hangs.
"""

import _thread
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

_A = TypeVar("_A")
_B = TypeVar("_B")
_IDLE_MAX_S: Final = 0.2


class Threads:
    """Threads that are started when they are needed, and go once nobody has needed them."""

    def __init__(self, at_once_max: int) -> None:
        """Let a call do so many things at once, its own thread among them."""
        self._startable, self._idle = at_once_max - 1, 0
        self._calls: SimpleQueue[_Shared[Any, Any]] = SimpleQueue()
        self._lock = threading.Lock()

    def map(self, do: Callable[[_A], _B], things: Sequence[_A]) -> list[_B]:
        """Do something to each of several things and return the answers in their order.

        Raises:
            BaseException: What `do` raised for the first of the things; an interruption goes
                first.
        """
        if len(things) <= 1:
            return [do(thing) for thing in things]
        shared = _Shared(do, things)
        try:
            for _ in things[1:]:
                if not self._is_helped(shared):
                    break
            shared.work()
            shared.leave()
        except BaseException:
            # What is under way is waited for all the same, also where the wait was cut.
            shared.leave()
            shared.failures.clear()
            raise
        return shared.outcome()

    def _is_helped(self, shared: "_Shared[_A, _B]") -> bool:
        """Let a thread help, if one is to be had."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._startable:
                self._startable -= 1
                try:
                    _thread.start_new_thread(self._help, ())
                except RuntimeError:
                    # The interpreter is ending, or the system has no more threads.
                    self._startable += 1
                    return False
            else:
                return False
            self._calls.put(shared)
        return True

    def _help(self) -> None:
        while True:
            try:
                self._take_part(self._calls.get(timeout=_IDLE_MAX_S))
            except Empty:
                with self._lock:
                    # Whoever asks puts under the lock, so nobody counts on this thread.
                    if self._calls.empty():
                        self._idle -= 1
                        self._startable += 1
                        return

    def _take_part(self, shared: "_Shared[_A, _B]") -> None:
        is_in_time = shared.join()
        if is_in_time:
            shared.work()
        with self._lock:
            self._idle += 1
        if is_in_time:
            shared.part()


class _Shared(Generic[_A, _B]):
    """Things of which each is taken once."""

    def __init__(self, do: Callable[[_A], _B], things: Sequence[_A]) -> None:
        self.failures: dict[int, BaseException] = {}
        self._do = do
        self._things = things
        self._answers: dict[int, _B] = {}
        self._next, self._end = 0, len(things)
        self._helpers = 0
        self._lock, self._alone = threading.Lock(), threading.Lock()
        self._alone.acquire()

    def work(self) -> None:
        """Take one thing after the other until none is left or one has failed."""
        while True:
            with self._lock:
                index = self._next
                if index >= self._end:
                    return
                self._next = index + 1
            try:
                self._answers[index] = self._do(self._things[index])
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                self.failures[index] = error
                self._begin_no_more()

    def join(self) -> bool:
        """Count a helper, unless there is nothing left to begin."""
        with self._lock:
            if self._next >= self._end:
                return False
            self._helpers += 1
            return True

    def part(self) -> None:
        """Count a helper no longer; the last one wakes the caller.

        One helper is the last: who parts has found nothing to begin, and nobody joins then.
        """
        with self._lock:
            self._helpers -= 1
            if self._helpers == 0:
                self._alone.release()

    def leave(self) -> None:
        """Wait until nothing is under way; nothing more is begun then."""
        self._begin_no_more()
        # IMPORTANT: asked each time; an interruption may come behind a wait that was over.
        while self._helpers:
            self._alone.acquire()

    def outcome(self) -> list[_B]:
        """Return the answers, or raise the failure that counts."""
        if not self.failures:
            return [self._answers[at] for at in range(self._end)]
        _, first = min((isinstance(e, Exception), at) for at, e in self.failures.items())
        try:
            raise self.failures[first]
        finally:
            # A failure that is kept would keep, by its trace, what was under way.
            self.failures.clear()

    def _begin_no_more(self) -> None:
        with self._lock:
            self._next = self._end
