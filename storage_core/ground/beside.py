"""The same thing done to several things at once: the caller takes part, threads help.

Each thing is begun once, in order, by whoever is free first. So nothing depends on a thread:
where none can be had, because the system has no more, their pool was stopped or the interpreter
is ending, the caller does it all. Behind a failure nothing more is begun, and nothing is under
way any more once the call is left.

For whoever has several shards to see to. Any thread may call.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_A = TypeVar("_A")
_B = TypeVar("_B")
Work = Callable[[], None]


def start_thread(work: Work) -> bool:
    """Let a new thread work; tell whether there is one."""
    try:
        threading.Thread(target=work, name="shardlog-beside").start()
    except RuntimeError:
        return False
    return True


def beside_each_other(
    do: Callable[[_A], _B],
    things: Sequence[_A],
    threads_max: int,
    start: Callable[[Work], bool] = start_thread,
) -> list[_B]:
    """Do something to each of several things and return the answers in their order.

    Args:
        do: What is done; any thread may call it.
        things: What it is done to.
        threads_max: How many are done at once, the caller's own thread among them.
        start: Lets another thread work, or returns False. It may come late or never: the caller
            waits only for what was begun.

    Raises:
        BaseException: What `do` raised for the first of the things; an interruption goes first.
    """
    if len(things) <= 1:
        return [do(thing) for thing in things]
    shared = _Shared(do, things)
    for _ in range(min(threads_max, len(things)) - 1):
        if not start(shared.work):
            break
    shared.work()
    return shared.answers()


class _Shared(Generic[_A, _B]):
    """Things of which each is taken once."""

    def __init__(self, do: Callable[[_A], _B], things: Sequence[_A]) -> None:
        self._do = do
        self._things = things
        self._begun = 0
        self._over = 0
        self._is_left = False
        self._answers: dict[int, _B] = {}
        self._failures: dict[int, BaseException] = {}
        self._changed = threading.Condition()

    def work(self) -> None:
        """Take one thing after the other until none is left or one has failed."""
        while (at := self._take()) is not None:
            try:
                self._answers[at] = self._do(self._things[at])
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                self._failures[at] = error
            finally:
                with self._changed:
                    self._over += 1
                    self._changed.notify()

    def answers(self) -> list[_B]:
        """Wait for what was begun; return the answers, or raise the failure that counts."""
        try:
            self._wait()
        except BaseException as interruption:  # noqa: BLE001 - raised below
            # What is under way is waited for all the same; a second interruption leaves at once.
            self._failures[len(self._things)] = interruption
            self._wait()
        if self._failures:
            # A failure that is kept would keep, by its trace, what was under way.
            failures, self._failures = self._failures, {}
            first = min(failures, key=lambda at: (isinstance(failures[at], Exception), at))
            try:
                raise failures[first]
            finally:
                del failures
        return [self._answers[at] for at in range(len(self._things))]

    def _wait(self) -> None:
        """Wait until nothing is under way; nothing more is begun then."""
        with self._changed:
            self._changed.wait_for(lambda: self._over == self._begun)
            self._is_left = True

    def _take(self) -> int | None:
        with self._changed:
            if self._is_left or self._failures or self._begun == len(self._things):
                return None
            self._begun += 1
            return self._begun - 1
