"""A moment of a RocksDB: iterators opened together, which their store can take away.

An iterator ends silently at a block it cannot read; so only this file iterates, and asks for the
status whenever one has come to its end. A live iterator keeps its database open and locked: the
store's `close` lets go of every one first, between two uses of it.

Only `rocksdb.py` makes snapshots, and gives what RocksDB raises its kind.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from storage_core.engine.key_value import Item
from storage_core.engine.segments import SegmentReader
from storage_core.errors import ClosedError
from storage_core.format.block import is_reference
from storage_core.format.keys import FAMILY_DEFAULT, FAMILY_LOG
from storage_core.platform import fork_guard

TranslatesErrors = AbstractContextManager[None]
# rocksdict's own, whose methods have no types.
RocksIterator: TypeAlias = Any

# How many iterators of a family one read uses at once, at most.
_CURSORS: Final = {FAMILY_DEFAULT: 3, FAMILY_LOG: 2}


class Cursor:
    """One RocksDB iterator that its store can take away, between two uses of it.

    IMPORTANT: no local name holds the iterator. It would outlast the lock, and in the trace of an
    error it would keep the database open.
    """

    __slots__ = ("_iterator", "_lock", "_opened_in", "_path", "_reading")

    def __init__(self, iterator: RocksIterator, path: Path, reading: TranslatesErrors) -> None:
        """Take over an iterator; `reading` gives what it raises a kind."""
        # None once it was taken away; that is looked at under the lock.
        self._iterator = iterator
        self._path = path
        self._reading = reading
        # Reentrant: a signal handler may let go of what it interrupts.
        self._lock = threading.RLock()
        self._opened_in: int | None = None

    def items(
        self, start: bytes, end: bytes | None, resolve: Callable[[Item], Item] | None = None
    ) -> Iterator[Item]:
        """Yield items from `start` to before `end`, each as `whole` returns it.

        IMPORTANT: the end is met in here. A generator that is dropped in its middle leaves its
        `with` where an interruption is swallowed.
        """
        with self._reading:
            item = self.seek(start, backwards=False)
            while item is not None and (end is None or item[0] < end):
                yield item if resolve is None else resolve(item)
                # Written out, since blocks are many: what `seek` does, with another first step.
                with self._lock:
                    if self._iterator is None:
                        self._refuse_released()
                    self._iterator.next()
                    if self._iterator.valid():
                        item = self._iterator.key(), self._iterator.value()
                    else:
                        item = self._item()

    def seek(self, key: bytes, *, backwards: bool) -> Item | None:
        """Return the nearest item at or on that side of the key."""
        with self._reading, self._lock:
            if self._iterator is None:
                self._refuse_released()
            if backwards:
                self._iterator.seek_for_prev(key)
            else:
                self._iterator.seek(key)
            return self._item()

    def release(self) -> None:
        """Let go of the iterator, once no thread is using it."""
        with self._lock:
            self._iterator = None

    def reads_through(self, start: bytes, last: bytes, may_go_on: Callable[[], bool]) -> bool:
        """Read every value between two keys, copying none; return False if left early."""
        with self._reading, self._lock:
            if self._iterator is None:
                self._refuse_released()
            self._iterator.seek(start)
            while self._iterator.valid() and self._iterator.key() <= last:
                if not may_go_on():
                    return False
                self._iterator.next()
            self._iterator.status()
            return True

    def leave_to_parent(self, process: int) -> None:
        """Leave the iterator as it is; who had the lock is not in this process."""
        self._lock = threading.RLock()
        self._opened_in = process
        fork_guard.keep_for_ever(self._iterator)
        self._iterator = None

    def _item(self) -> Item | None:
        if self._iterator.valid():
            return self._iterator.key(), self._iterator.value()
        self._iterator.status()
        return None

    def _refuse_released(self) -> NoReturn:
        if self._opened_in is not None:
            raise fork_guard.opened_elsewhere(self._opened_in, path=self._path)
        message = "the store was closed while it was being read"
        raise ClosedError(message, path=self._path)


class RocksDbSnapshot:
    """A moment of a RocksDB, both families alike. One thread at a time.

    All iterators it will ever need are opened together, before anything is read, and used
    again and again.

    NOTE: rocksdict's snapshots (0.3.29) do not hold for iterators, a secondary has none, and
    letting go of one makes RocksDB rewrite the oldest files. An iterator keeps its moment.
    """

    def __init__(self, path: Path, reading: TranslatesErrors, segments: SegmentReader) -> None:
        """Start without iterators; `segments` is its store's."""
        self._path = path
        self._reading = reading
        self._is_open = True
        self._cursors: list[Cursor] = []
        self._idle: dict[str, list[Cursor]] = {}
        self._segments = segments

    def begin(self, openers: dict[str, Callable[[], RocksIterator]]) -> None:
        """Open the iterators; its store sees to it that it is not closed meanwhile."""
        for family, open_iterator in openers.items():
            idle = self._idle[family] = []
            for _ in range(_CURSORS[family]):
                cursor = Cursor(open_iterator(), self._path, self._reading)
                self._cursors.append(cursor)
                idle.append(cursor)

    def items(self, family: str, start: bytes, end: bytes | None) -> Iterator[Item]:
        """Yield the items from `start` to before `end` in order; raise if one is unreadable."""
        cursor = self._take_cursor(family)
        try:
            yield from cursor.items(start, end, self._resolve if family == FAMILY_LOG else None)
        finally:
            self._idle[family].append(cursor)

    def at_or_before(self, family: str, key: bytes) -> Item | None:
        """Return the item with the largest key that is not above `key`."""
        return self._seek(family, key, backwards=True)

    def at_or_after(self, family: str, key: bytes) -> Item | None:
        """Return the item with the least key that is not below `key`."""
        return self._seek(family, key, backwards=False)

    def bytes_under(self, family: str, start: bytes, end: bytes) -> int:
        """Return the bytes of the values from `start` to before `end`, of no segment's."""
        cursor = self._take_cursor(family)
        try:
            return sum(len(value) for _, value in cursor.items(start, end))
        finally:
            self._idle[family].append(cursor)

    def segment_location(self, key: bytes) -> str | None:
        """Say where in a segment the block under a key lies; None if it is in none."""
        item = self._raw_item_near(FAMILY_LOG, key, backwards=False)
        if item is None or item[0] != key or not is_reference(item[1]):
            return None
        return self._segments.location_of(item[1])

    @property
    def is_open(self) -> bool:
        """Tell whether it can still be read."""
        return self._is_open

    def close(self) -> None:
        """Let go of the moment; any thread may, and who reads on gets `ClosedError`."""
        self._is_open = False
        for cursor in self._cursors:
            cursor.release()

    def leave_to_parent(self, process: int) -> None:
        """Leave the iterators as they are."""
        for cursor in self._cursors:
            cursor.leave_to_parent(process)

    def _resolve(self, item: Item) -> Item:
        """Return a block's item with its bytes, wherever they lie."""
        key, value = item
        return (key, self._segments.block(value)) if is_reference(value) else item

    def _seek(self, family: str, key: bytes, *, backwards: bool) -> Item | None:
        item = self._raw_item_near(family, key, backwards=backwards)
        return self._resolve(item) if item is not None and family == FAMILY_LOG else item

    def _raw_item_near(self, family: str, key: bytes, *, backwards: bool) -> Item | None:
        cursor = self._take_cursor(family)
        try:
            return cursor.seek(key, backwards=backwards)
        finally:
            self._idle[family].append(cursor)

    def _take_cursor(self, family: str) -> Cursor:
        if not self._is_open:
            message = "the store was closed while it was being read"
            raise ClosedError(message, path=self._path)
        assert self._idle[family], f"a read used more than {_CURSORS[family]} iterators at once"
        return self._idle[family].pop()
