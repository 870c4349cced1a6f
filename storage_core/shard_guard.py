"""What stands between callers and a shard: its two locks, its end and its poison.

The append lock guards what is written, the commit lock the sync and the marker. Order: append
lock, then commit lock; whoever holds only the commit lock never asks for the append lock.
Waits are bounded. After a failed durable write nobody knows what the disk holds, so the shard
refuses everything until it is reopened.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from storage_core.errors import (
    ClosedError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)


class ShardGuard:
    """Locks and the two ways a shard ends."""

    def __init__(self, stream: str, shard: int, wait_max_s: float) -> None:
        """Start open and whole."""
        self.stream = stream
        self.shard = shard
        self.wait_max_s = wait_max_s
        self.append_lock = threading.RLock()
        self.commit_lock = threading.Lock()
        self.poison: BaseException | None = None
        self.is_closed = False
        self.is_usable = True
        self._appending = _Held(self, is_commit=False)
        self._committing = _Held(self, is_commit=True)
        self._poisoning = _Poisoning(self)

    def close(self) -> None:
        """Refuse all work from here on."""
        self.is_closed = True
        self.is_usable = False

    def fail(self, error: BaseException) -> None:
        """Refuse all work until the shard is reopened, because of this error."""
        self.poison = self.poison or error
        self.is_usable = False

    def appending(self) -> "_Held":
        """Hold the append lock of a usable shard."""
        return self._appending

    def committing(self) -> "_Held":
        """Hold the commit lock of a usable shard."""
        return self._committing

    def poisoning(self) -> "_Poisoning":
        """Poison the shard if the block fails, whatever the reason."""
        return self._poisoning

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Hold both locks, whether the shard is usable or not.

        Raises:
            UnavailableError: Another call kept one for too long.
        """
        self.wait_for_append()
        try:
            self.wait_for_commit()
            try:
                yield
            finally:
                self.commit_lock.release()
        finally:
            self.append_lock.release()

    @contextmanager
    def both_if_free(self) -> Iterator[bool]:
        """Hold both locks if no other call has one; tell whether they are held."""
        has_append = self.append_lock.acquire(blocking=False)
        has_commit = has_append and self.commit_lock.acquire(blocking=False)
        try:
            yield has_commit
        finally:
            if has_commit:
                self.commit_lock.release()
            if has_append:
                self.append_lock.release()

    def wait_for_append(self) -> None:
        """Take the append lock, in bounded time.

        Raises:
            UnavailableError: Another call kept it for too long.
        """
        if not self.append_lock.acquire(timeout=self.wait_max_s):
            self._refuse_wait("append")

    def wait_for_commit(self) -> None:
        """Take the commit lock, in bounded time.

        Raises:
            UnavailableError: Another call kept it for too long.
        """
        if not self.commit_lock.acquire(timeout=self.wait_max_s):
            self._refuse_wait("commit")

    def refuse_if_unusable(self) -> None:
        """Raise if the shard is closed or poisoned."""
        self.refuse_if_closed()
        if self.poison is not None:
            raise self.poisoned(self.poison) from self.poison

    def refuse_if_closed(self) -> None:
        """Raise if the shard is closed."""
        if self.is_closed:
            message = "the shard is closed"
            raise ClosedError(message, stream=self.stream, shard=self.shard)

    def poisoned(self, error: BaseException) -> ShardPoisonedError:
        """Return the error that tells of a failed durable write."""
        message = f"a durable write failed: {error}; reopen the stream to recover"
        return ShardPoisonedError(message, stream=self.stream, shard=self.shard)

    def _refuse_wait(self, purpose: str) -> None:
        message = f"waited {self.wait_max_s} s to {purpose}; another call holds the shard"
        raise UnavailableError(message, stream=self.stream, shard=self.shard)


class _Held:
    """A lock as a context that any thread may enter, any number of times."""

    __slots__ = ("_guard", "_is_commit")

    def __init__(self, guard: ShardGuard, *, is_commit: bool) -> None:
        self._guard = guard
        self._is_commit = is_commit

    def __enter__(self) -> Self:
        guard = self._guard
        if self._is_commit:
            guard.wait_for_commit()
        else:
            guard.wait_for_append()
        if not guard.is_usable:
            self.__exit__(None, None, None)
            guard.refuse_if_unusable()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_commit:
            self._guard.commit_lock.release()
        else:
            self._guard.append_lock.release()


class _Poisoning:
    __slots__ = ("_guard",)

    def __init__(self, guard: ShardGuard) -> None:
        self._guard = guard

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        self._guard.fail(error)
        if isinstance(error, ShardlogError | OSError):
            raise self._guard.poisoned(error) from error
