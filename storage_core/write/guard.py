"""What stands between callers and a shard: its locks, its end and its poison.

The append lock guards what is written, the commit lock the sync and the marker. Order: append
lock, then commit lock; whoever holds only the commit lock never asks for the append lock.
The maintenance lock comes before both (`maintain`): expiry, verify, seal, compaction and trim of a
shard exclude each other, and take the other two for moments.
Waits are bounded. After a failed durable write nobody knows what the disk holds, so the shard
refuses everything until it is reopened. An interruption is no such failure: what it cut short is
finished first.

An exception out of a signal handler (Ctrl-C, a time limit) comes up where the interpreter looks
for signals: at the begin of a Python function, behind a call, at a jump back. There is such a
place between a Python `__exit__` and its first line, and another behind an `acquire` that has
just succeeded. Hence the lock's own `__exit__`, which is C, lets go of it, and what takes it
gives it back before an exception leaves.

It is never taken twice. A thread that asks again for what it has is a signal handler inside the
call that it interrupted, so waiting would be for ever.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Self, TypeVar

from storage_core.errors import (
    ClosedError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)
from storage_core.platform import fork_guard
from storage_core.platform.fork_guard import Home

_HELD_ALREADY: Final = nullcontext()
_RUNS_MAX: Final = 8
_Answer = TypeVar("_Answer")


# NOTE: `threading.RLock` is a function in Python 3.11. A plain lock does not know its owner.
_OwnedLock: Any = type(threading.RLock())


class ShardLock(_OwnedLock):  # type: ignore[misc]  # its class is known only when it runs
    """One of a shard's locks. As a context: held of a usable shard, in bounded time."""

    __slots__ = ("_guard", "_purpose", "is_in_doubt")

    def __init__(self, guard: "ShardGuard", purpose: str) -> None:
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


class ShardGuard:
    """Locks and the two ways a shard ends."""

    def __init__(self, stream: str, shard: int, wait_max_s: float) -> None:
        self.stream = stream
        self.shard = shard
        self.wait_max_s = wait_max_s
        self.append_lock = ShardLock(self, "append")
        self.commit_lock = ShardLock(self, "commit")
        self.maintenance_lock = ShardLock(self, "maintain the shard")
        self.poison: BaseException | None = None
        self.is_closed = False
        self.is_usable = True
        self._home = Home(stream, shard)
        fork_guard.register(self)

    def leave_to_parent(self, _process: int) -> None:
        """Refuse all work; who held a lock is not in this process."""
        self.append_lock = ShardLock(self, "append")
        self.commit_lock = ShardLock(self, "commit")
        self.maintenance_lock = ShardLock(self, "maintain the shard")
        self.is_usable = False

    def close(self) -> None:
        """Refuse all work from here on."""
        self.is_closed = True
        self.is_usable = False

    def fail(self, error: BaseException) -> None:
        """Refuse all work until the shard is reopened, because of this error."""
        self.poison = self.poison or error
        self.is_usable = False

    def appending(self) -> AbstractContextManager[object]:
        """Hold the append lock of a usable shard; a caller that has it goes on holding it."""
        return self._held(self.append_lock)

    def committing(self) -> AbstractContextManager[object]:
        """Hold the commit lock of a usable shard; a caller that has it goes on holding it."""
        return self._held(self.commit_lock)

    def finish(self, lock: ShardLock, step: Callable[[], None]) -> None:
        """Do what must not stay half done, as `in_full` does it; poison the shard if it fails.

        Args:
            lock: The lock that guards it, held.
            step: What is done; a second time it changes nothing.

        Raises:
            ShardPoisonedError: The disk failed.
        """
        try:
            in_full(step, lock)
        except (ShardlogError, OSError) as error:
            self.fail(error)
            raise self.poisoned(error) from error
        except BaseException as error:
            if lock.is_in_doubt:
                self.fail(error.__cause__ or error)
            raise

    def end(self, do: Callable[[], None]) -> None:
        """Do something in full with both locks held, whether the shard is usable or not.

        Raises:
            UnavailableError: Another call kept one for too long; nothing was done.
        """
        self._home.refuse_elsewhere()
        self.append_lock.take()
        try:
            self.commit_lock.take()
            try:
                in_full(do)
            finally:
                self.commit_lock.release()
        finally:
            self.append_lock.release()

    def maintain(self, do: Callable[[], _Answer]) -> _Answer:
        """Do something to a shard while no other maintenance of it runs.

        Raises:
            UnavailableError: Other maintenance ran for too long.
        """
        self.maintenance_lock.take()
        try:
            return do()
        finally:
            self.maintenance_lock.release()

    def unless_busy(self, do: Callable[[], None]) -> None:
        """Do something with both locks held, or nothing if another call has one."""
        was_mine = self.append_lock.is_mine
        if not was_mine and not self.append_lock.take_if_free():
            return
        try:
            if self.commit_lock.take_if_free():
                try:
                    do()
                finally:
                    self.commit_lock.release()
        finally:
            if not was_mine:
                self.append_lock.release()

    def poison_if_in_doubt(self, lock: ShardLock) -> None:
        """Poison the shard if a step under a lock was left half done; its lock is held."""
        if lock.is_in_doubt and self.poison is None:
            message = "a write was interrupted more than once"
            self.fail(self.unavailable(message))

    def refuse_if_unusable(self) -> None:
        """Raise if the shard is closed or poisoned."""
        self.refuse_if_closed()
        if self.poison is not None:
            raise self.poisoned(self.poison) from self.poison

    def refuse_if_closed(self) -> None:
        """Raise if the shard is closed, or open in the process that this one is a fork of."""
        self._home.refuse_elsewhere()
        if self.is_closed:
            message = "the shard is closed"
            raise ClosedError(message, stream=self.stream, shard=self.shard)

    def poisoned(self, error: BaseException) -> ShardPoisonedError:
        """Return the error that tells of a failed durable write."""
        message = f"a durable write failed: {error}; reopen the stream to recover"
        return ShardPoisonedError(message, stream=self.stream, shard=self.shard)

    def unavailable(self, message: str) -> UnavailableError:
        """Return the error that tells that this shard cannot be had now."""
        return UnavailableError(message, stream=self.stream, shard=self.shard)

    def _held(self, lock: ShardLock) -> AbstractContextManager[object]:
        if not lock.is_mine:
            return lock
        self.poison_if_in_doubt(lock)
        self.refuse_if_unusable()
        return _HELD_ALREADY


def in_full(step: Callable[[], None], lock: ShardLock | None = None) -> None:
    """Do something whose second run changes nothing; raise an interruption once it is done.

    What an exception out of a signal handler leaves is known, unlike what a failed write
    leaves: some of what another run does in full.

    Args:
        step: What is done. What it raises as a `ShardlogError` or `OSError` ends it.
        lock: What guards it; in doubt for as long as it is not done.
    """
    interruption: BaseException | None = None
    try:
        for _ in range(_RUNS_MAX):
            try:
                if lock is not None:
                    lock.is_in_doubt = True
                step()
                if lock is not None:
                    lock.is_in_doubt = False
                break
            except (ShardlogError, OSError) as error:
                if interruption is None:
                    raise
                raise interruption from error
            except BaseException as error:  # noqa: BLE001 - raised below
                interruption = error
        if interruption is not None:
            raise interruption
    finally:
        # A kept exception and its trace would keep each other.
        interruption = None
