"""How many threads read one open stream at once: the others wait, for a bounded time.

A thread has one place, whatever reads it has under way: whoever reads in the callback of
`for_each`, or between two batches of a `scan`, needs no second one and so cannot wait for itself.
The place is free again when the last of its reads is over: answered, failed, closed or, where an
iterator was left half-way, collected. Of those one thread may leave no more than `OPEN_MAX` open.

No lock is held: an iterator may be collected in the middle of any line here, on any thread, and
lets go of its read then. So each step is one call of a list or a `SimpleQueue`, which do not tear.
"""

import threading
from queue import Empty, SimpleQueue
from typing import Final

from storage_core.catalog.options import StreamOptions
from storage_core.errors import InvalidRequestError, UnavailableError

OPEN_MAX: Final = 1000
_PLACE: Final = "a place"
_WITHIN: Final = "within a place"


class ReadGate:
    """Lets so many threads read at once. Any thread may call it."""

    def __init__(self, stream: str, options: StreamOptions) -> None:
        """Begin with all places free."""
        self.options = options
        self._stream = stream
        self._free: SimpleQueue[str] = SimpleQueue()
        for _ in range(options.reads_max):
            self._free.put(_PLACE)
        self._threads = _OfThread()

    def under(self, options: StreamOptions) -> "ReadGate":
        """Return the gate under other options: this one, or one for the reads that come now."""
        if options is not self.options:
            if options.reads_max != self.options.reads_max:
                return ReadGate(self._stream, options)
            self.options = options
        return self

    def enter(self) -> "Read":
        """Begin a read; leave it by `with`.

        Raises:
            UnavailableError: All places were taken for too long.
            InvalidRequestError: This thread has left as many reads open.
        """
        held = self._threads.held
        if held:
            if len(held) >= OPEN_MAX:
                self._refuse_open()
            held.append(_WITHIN)
        else:
            held.append(self._place())
        return Read(self._free, held)

    def _place(self) -> str:
        try:
            return self._free.get_nowait()
        except Empty:
            pass
        wait_max_s = self.options.wait_max.total_seconds()
        try:
            # By the machine's clock: reads end no sooner because a test turns another one.
            return self._free.get(timeout=wait_max_s)
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


class Read:
    """One read under way."""

    __slots__ = ("_free", "_held")

    def __init__(self, free: SimpleQueue[str], held: list[str]) -> None:
        """Take over an entry in what its thread holds."""
        self._free = free
        self._held = held

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        # The place lies at the bottom: whoever takes it, on whatever thread, was the last.
        if self._held.pop() is _PLACE:
            self._free.put(_PLACE)


class _OfThread(threading.local):
    """What a thread holds: a place, and above it one entry for each more read."""

    def __init__(self) -> None:
        self.held: list[str] = []
