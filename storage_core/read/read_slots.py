"""How many threads read one open stream at once: the others wait, for a bounded time.

A thread has one slot, whatever reads it has under way: whoever reads in the callback of
`for_each`, or between two batches of a `scan`, needs no second one and so cannot wait for itself.
The slot is free again when the last of its reads is over: answered, failed, closed or, where an
iterator was left half-way, collected. Of those one thread may leave no more than `OPEN_MAX` open.

A slot is a token, which is among the free ones or with its thread, never in between. Where an
interruption (Ctrl-C) ends a read before it could give the token back, its thread's next read does.

No lock is held: an iterator may be collected in the middle of any line here, on any thread, and
ends its read then. So each step is one call of a list or a `SimpleQueue`, which do not tear.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final
from weakref import ref

from storage_core.catalog.options import StreamOptions
from storage_core.errors import InvalidRequestError, UnavailableError

OPEN_MAX: Final = 1000
_Tokens = SimpleQueue[None]


class ReadSlots:
    """Lets so many threads read at once. Any thread may call it."""

    def __init__(self, stream: str, options: StreamOptions) -> None:
        """Begin with all slots free."""
        self.options = options
        self._stream = stream
        self._free: _Tokens = SimpleQueue()
        for _ in range(options.reads_max):
            self._free.put(None)
        self._own = _OfThread()

    def under(self, options: StreamOptions) -> "ReadSlots":
        """Return the slots under other options: these, or new ones for the reads that come now."""
        if options is not self.options:
            if options.reads_max != self.options.reads_max:
                return ReadSlots(self._stream, options)
            self.options = options
        return self

    def enter(self) -> "Read":
        """Begin a read; leave it by `with`.

        Raises:
            UnavailableError: All slots were taken for too long.
            InvalidRequestError: This thread has left as many reads open.
        """
        own = self._own
        if not own.token:
            self._take(own.token)
        slot = own.slot()
        if slot is None:
            slot = _Slot(self._free, own.token)
            own.slot = ref(slot)
        elif len(slot.reads) >= OPEN_MAX:
            self._refuse_open()
        return Read(slot)

    def _take(self, token: list[None]) -> None:
        try:
            _move(self._free.get, (False,), token.append)
        except Empty:
            pass
        else:
            return
        wait_max_s = self.options.wait_max.total_seconds()
        try:
            # By the machine's clock: reads end no sooner because a test turns another one.
            _move(partial(self._free.get, timeout=wait_max_s), (True,), token.append)
        except Empty:
            message = (
                f"waited {wait_max_s:g} s while {self.options.reads_max} other threads read; "
                "try again, or raise reads_max"
            )
            raise UnavailableError(message, stream=self._stream) from None

    def _refuse_open(self) -> None:
        message = (
            f"this thread has {OPEN_MAX} reads of the stream under way: close iterators that are "
            "not read to their end"
        )
        raise InvalidRequestError(message, stream=self._stream)


class _Slot:
    """A thread's slot: only its reads know it, so that what an interruption left is no read."""

    __slots__ = ("__weakref__", "_free", "_token", "reads")

    def __init__(self, free: _Tokens, token: list[None]) -> None:
        self._free = free
        self._token = token
        self.reads: list[None] = []

    def leave(self) -> None:
        """End one read; with the last one the slot is free."""
        self.reads.pop()
        if not self.reads:
            # Another thread may have ended the last but one in the same moment.
            with suppress(IndexError):
                _move(self._token.pop, (0,), self._free.put)


class Read:
    """One read under way."""

    __slots__ = ("_place",)

    def __init__(self, slot: _Slot) -> None:
        """Take part in what a thread reads."""
        self._place = slot
        slot.reads.append(None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._place.leave()


class _OfThread(threading.local):
    """What a thread has: a token if it has a slot, and that slot while it reads."""

    def __init__(self) -> None:
        self.token: list[None] = []
        self.slot: Callable[[], _Slot | None] = _no_slot


def _no_slot() -> None:
    return None


def _move(take: Callable[..., None], argument: tuple[object], give: Callable[[None], None]) -> None:
    """Give what is taken, in one call of the interpreter: no interruption comes in between."""
    any(map(give, map(take, argument)))
