"""A lock that is waited for in bounded time and that no interruption leaves behind.

An exception out of a signal handler (Ctrl-C, a time limit) comes up where the interpreter looks
for signals: at the begin of a Python function, behind a call, at a jump back. There is such a
place between a Python `__exit__` and its first line, and another behind an `acquire` that has
just succeeded. Hence the lock's own `__exit__`, which is C, lets go of it, and what takes it
gives it back before an exception leaves.

It is never taken twice. A thread that asks again for what it has is a signal handler inside the
call that it interrupted, so waiting would be for ever.
"""

import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from storage_core.write.guard import ShardGuard

# NOTE: `threading.RLock` is a function in Python 3.11. A plain lock does not know its owner.
_OwnedLock: Any = type(threading.RLock())


class ShardLock(_OwnedLock):  # type: ignore[misc]  # its class is known only when it runs
    """One of a shard's two locks. As a context: held of a usable shard, in bounded time."""

    __slots__ = ("_guard", "_purpose", "is_in_doubt")

    def __init__(self, guard: "ShardGuard", purpose: str) -> None:
        """Start free."""
        self._guard = guard
        self._purpose = purpose
        self.is_in_doubt = False

    @property
    def is_mine(self) -> bool:
        """Tell whether the calling thread has it."""
        is_owned: bool = self._is_owned()
        return is_owned

    def __enter__(self) -> Self:
        """Take it.

        Raises:
            UnavailableError: Another call kept it for too long.
            ClosedError: The shard is closed.
            ShardPoisonedError: An earlier durable write failed.
        """
        if self._is_owned():
            self._refuse_again()
        try:
            # No keyword: it would be a twentieth of what a record costs.
            if not self.acquire(False):  # noqa: FBT003 - as said
                self._wait()
            if self.is_in_doubt or not self._guard.is_usable:
                self._guard.poison_if_in_doubt(self)
                self._guard.refuse_if_unusable()
            return self  # noqa: TRY300 - inside, or an interruption would come between
        except BaseException:
            self._give_back()
            raise

    def take(self) -> None:
        """Take it, usable shard or not; the caller's `finally` calls `release` at once.

        Raises:
            UnavailableError: Another call kept it for too long.
        """
        if self._is_owned():
            self._refuse_again()
        try:
            self._wait()
            self._guard.poison_if_in_doubt(self)
        except BaseException:
            self._give_back()
            raise

    def take_if_free(self) -> bool:
        """Take it unless somebody has it; if so, the caller's `finally` calls `release` at once."""
        if self._is_owned():
            return False
        try:
            is_taken: bool = self.acquire(blocking=False)
            if is_taken:
                self._guard.poison_if_in_doubt(self)
            return is_taken  # noqa: TRY300 - inside, or an interruption would come between
        except BaseException:
            self._give_back()
            raise

    def _wait(self) -> None:
        wait_max_s = self._guard.wait_max_s
        if not self.acquire(timeout=wait_max_s):
            message = f"waited {wait_max_s} s to {self._purpose}; another call holds the shard"
            raise self._guard.unavailable(message)

    def _give_back(self) -> None:
        if self._is_owned():
            self.release()

    def _refuse_again(self) -> None:
        message = (
            f"cannot {self._purpose} inside another call of the same thread: "
            "let signal handlers set a flag and leave the work to those they interrupt"
        )
        raise self._guard.unavailable(message)
