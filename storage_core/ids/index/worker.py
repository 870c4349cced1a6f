"""The index worker: one thread a stream, which writes the entries of its shards' indexes.

It sleeps until rows are handed over, and then looks at them as they become many, or once a tick.
Each look writes one batch, so where entries come faster than they go the spacing widens; once a
tick has passed without a block it writes all that is left. With nothing left to do it sleeps.

It holds nothing: a stream that is forgotten without being closed takes its worker along. In a
fork there is none.

IMPORTANT: what it waits on is of C (platform/threads.py tells why), and it begins with the first
rows, so that a stream that is only read or looked after has no thread.
"""

import _thread
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final
from weakref import ReferenceType, ref

from storage_core.engine.environment import Environment
from storage_core.ids.index.adaptive_writer import ShardIndex

_END_WAIT_S: Final = 5.0
_STACK_BYTES: Final = 2**20


class IndexWorker:
    """Writes the entries of some shards' indexes. Any thread may call it."""

    def __init__(self, indexes: Sequence[ShardIndex], environment: Environment) -> None:
        """See to these indexes, by a thread if the environment has one, and when told."""
        self._indexes = indexes
        self._clock = environment.clock
        self._ticked_s = environment.clock.monotonic_s()
        self._bell = _Bell(self) if environment.has_index_worker else None
        if self._bell is not None:
            for index in indexes:
                index.wake = self._bell.ring

    def hold(self) -> None:
        """Write no entry until `release`; what is being written is written on return."""
        for index in self._indexes:
            index.hold(is_held=True)

    def release(self) -> None:
        """Write entries again."""
        for index in self._indexes:
            index.hold(is_held=False)

    def look(self) -> None:
        """Choose entries from all that was handed over, and write none; a tick passes a block."""
        for index in self._indexes:
            index.take_rows(writes=False)

    def drain(self) -> None:
        """Choose and write, held or not, all entries of rows that are committed."""
        for index in self._indexes:
            index.drain()

    def stop(self) -> None:
        """Let the thread end, in bounded time, if its shards are closed."""
        if self._bell is not None and self.is_over:
            self._bell.stop()

    def run_once(self, *, is_idle: bool) -> None:
        """Do what there is to do at this moment.

        Args:
            is_idle: Whether a tick's time has passed in which nobody was woken.
        """
        now_s = self._clock.monotonic_s()
        is_idle = is_idle and not any(index.has_rows for index in self._indexes)
        is_tick = is_idle and now_s - self._ticked_s >= self._tick_s
        if is_tick or not is_idle:
            self._ticked_s = now_s
        for index in self._indexes:
            try:
                index.take_rows(writes=True)
                if is_tick:
                    index.tick()
                if is_idle:
                    index.write_all()
            except Exception as error:  # noqa: BLE001 - reported; other shards and later runs go on
                index.tell(error)

    @property
    def is_over(self) -> bool:
        """Tell whether there is nothing left to see to."""
        return all(index.is_stopped for index in self._indexes)

    def pause_s(self) -> float | None:
        """Return how long to wait for rows: a tick, or for ever."""
        if all(index.is_quiet for index in self._indexes):
            for index in self._indexes:
                index.is_watched = False
            # IMPORTANT: asked again once it is told; rows may have come between.
            if not any(index.has_rows for index in self._indexes):
                return None
        for index in self._indexes:
            index.is_watched = True
        return self._tick_s

    @property
    def _tick_s(self) -> float:
        return min(index.tick_s for index in self._indexes)


class _Bell:
    """Wakes the thread, and starts it first; holds its worker by no more than a weak reference."""

    def __init__(self, worker: IndexWorker) -> None:
        wake: SimpleQueue[None] = SimpleQueue()
        self._wake = wake
        self._worker = ref(worker, lambda _: wake.put(None))
        self._ended = _thread.allocate_lock()
        self._startable = [True]

    def ring(self) -> None:
        # Whoever takes it out starts the thread: that happens once.
        with suppress(IndexError):
            self._startable.pop()
            self._ended.acquire()
            # NOTE: a fork that ends joins RocksDB's threads, whose stacks glibc (2.36) has by then
            # given back if those of all threads together were more than 40 MiB.
            stack_bytes = _thread.stack_size(_STACK_BYTES)
            try:
                _thread.start_new_thread(_work, (self._worker, self._wake, self._ended))
            except RuntimeError:
                # The system has no more threads, or the interpreter is ending: another time.
                self._ended.release()
                self._startable.append(True)
            finally:
                _thread.stack_size(stack_bytes)
        self._wake.put(None)

    def stop(self) -> None:
        self._startable.clear()
        self._wake.put(None)
        if self._ended.acquire(timeout=_END_WAIT_S):
            self._ended.release()


def _work(
    worker: "ReferenceType[IndexWorker]", wake: "SimpleQueue[None]", ended: _thread.LockType
) -> None:
    """Wait for rows and write entries until the worker is gone, or all its shards are closed."""
    try:
        pause_s: float | None = None
        while True:
            is_idle = _is_tick_over(wake, pause_s)
            current = worker()
            if current is None or current.is_over:
                return
            current.run_once(is_idle=is_idle)
            pause_s = current.pause_s()
            del current
    finally:
        ended.release()


def _is_tick_over(wake: "SimpleQueue[None]", pause_s: float | None) -> bool:
    """Wait until woken or for so long; tell whether it was so long."""
    try:
        wake.get(timeout=pause_s)
    except Empty:
        return True
    with suppress(Empty):
        # Whoever woke it several times has handed over all that it is about to take.
        while True:
            wake.get_nowait()
    return False
