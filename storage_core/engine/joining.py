"""Joining: small neighbouring files of the log family become large ones.

Blocks are written in address order, so the files of `log` never overlap, and RocksDB's leveled
compaction moves them as they are: a file a flush, for ever. What is joined here, and when, is
chosen so that no block is rewritten more than a few times, whatever the shard holds:

    large      a file of 128 MiB or more is never touched again
    settled    neighbours that are small and make 256 MiB together become one large file
    gathered   the eight or more newest become one, if none of them is more than a quarter of
               it; so each such rewriting at least quadruples the file that a block lies in

A shard of N bytes so has at most N / 128 MiB large files and some dozen small ones.

One thread a process joins, one group at a time, beside writers and readers. RocksDB refuses all
writes after a compaction that met a bad block; so files that were there when the store was
opened are read through first, and left alone for good if they cannot be. What this process
wrote itself it has just had in memory.
"""

import logging
import re
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol
from weakref import ref

from storage_core.errors import ShardlogError

LARGE_BYTES: Final = 128 * 2**20
SETTLED_BYTES: Final = 256 * 2**20
GATHERED_FILES_MIN: Final = 8
_GROWTH_MIN: Final = 4
# How much is written between two looks at the files.
LOOK_BYTES: Final = 16 * 2**20
_PRINTED_NUMBER: Final = re.compile(r"^ (\d+):\d+", re.MULTILINE)

_log: Final = logging.getLogger(__name__)

Work = Callable[[], None]
KeyRange = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the log family: its first and last key, and its size."""

    name: str
    first: bytes
    last: bytes
    size: int


class Joinable(Protocol):
    """What joining needs of a store."""

    path: Path

    def log_files(self) -> list[StoredFile]:
        """Return the files of the log family by their first keys."""
        ...

    def is_readable(self, file: StoredFile, goes_on: Callable[[], bool]) -> bool:
        """Tell whether every block of a file can be read; False if it was left early."""
        ...

    def join(self, first: bytes, last: bytes) -> None:
        """Rewrite what lies between two keys, both included, as one file."""
        ...

    def has_blocks(self, start: bytes, end: bytes) -> bool:
        """Tell whether there is any block from one key to before another."""
        ...

    def remove_blocks(self, start: bytes, end: bytes) -> None:
        """Remove the blocks from one key to before another."""
        ...


def files_listed(family: str, all_files: Iterable[Mapping[str, Any]]) -> list[StoredFile]:
    """Return a family's files by their first keys.

    Args:
        family: The family's files as RocksDB prints them: ` 9:16780015[1 .. 32][...` a line.
        all_files: The files of all families, which do not say whose they are.
    """
    numbers = {int(number) for number in _PRINTED_NUMBER.findall(family)}
    files = [
        StoredFile(file["name"], file["start_key"], file["end_key"], file["size"])
        for file in all_files
        if int(file["name"].strip("/").removesuffix(".sst")) in numbers
    ]
    return sorted(files, key=lambda file: file.first)


def group_to_join(files: Sequence[StoredFile]) -> Sequence[StoredFile]:
    """Return the neighbours to be joined next, none if all is well.

    Args:
        files: Files by their first keys, none overlapping.
    """
    begin, total = 0, 0
    for index, file in enumerate(files):
        total += file.size
        if file.size >= LARGE_BYTES:
            begin, total = index + 1, 0
        elif total >= SETTLED_BYTES:
            return files[begin : index + 1]
    return _newest_to_gather(files[begin:])


def _newest_to_gather(smalls: Sequence[StoredFile]) -> Sequence[StoredFile]:
    total, largest, most = 0, 0, 0
    for count, file in enumerate(reversed(smalls), start=1):
        total += file.size
        largest = max(largest, file.size)
        if count >= GATHERED_FILES_MIN and _GROWTH_MIN * largest <= total:
            most = count
    return smalls[len(smalls) - most :]


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "shardlog-join")


def _beside(work: Work) -> "Future[None] | None":
    try:
        return _thread().submit(work)
    except RuntimeError:
        # The interpreter is ending, or the system has no more threads.
        return None


def _free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


class LogJoiner:
    """Sees to the files of one store. Any thread may call it."""

    def __init__(
        self,
        store: Joinable,
        start: "Callable[[Work], Future[None] | None]" = _beside,
        free_bytes: Callable[[Path], int] = _free_bytes,
    ) -> None:
        """See to the files that are there already, if they need it."""
        # The store has its joiner; the other way round it must be free to go.
        self._store = ref(store)
        self._start = start
        self._free_bytes = free_bytes
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None
        self._is_stopped = False
        self._written = 0
        # Taken from by the one who looks alone.
        self._dead: deque[KeyRange] = deque()
        self._left_alone: set[str] = set()
        files = store.log_files()
        self._unproven = {file.name for file in files}
        if group_to_join(files):
            self._look_later()

    def wrote(self, size: int) -> None:
        """Count what was written to the log; look at the files once it is enough."""
        self._written += size
        if self._written >= LOOK_BYTES:
            self._written = 0
            self._look_later()

    def remove(self, ranges: Iterable[KeyRange]) -> None:
        """Remove the blocks in these ranges, to which nothing refers, and the files they fill."""
        self._dead.extend(ranges)
        self._look_later()

    def settle(self) -> None:
        """Wait for what is under way."""
        with self._lock:
            under_way = self._under_way
        if under_way is not None:
            wait([under_way])

    def stop(self) -> None:
        """Begin nothing more, and wait for what is under way: one group at most."""
        with self._lock:
            self._is_stopped = True
            under_way = self._under_way
        if under_way is not None and not under_way.cancel():
            wait([under_way])

    def _look_later(self) -> None:
        with self._lock:
            is_idle = self._under_way is None or self._under_way.done()
            if is_idle and not self._is_stopped:
                self._under_way = self._start(self._look)

    def _look(self) -> None:
        """Join group after group until all is well; a failure ends it until the next opening."""
        store = self._store()
        if store is None:
            return
        try:
            while self._goes_on() and (self._remove_one(store) or self._join_one(store)):
                pass
        except (ShardlogError, OSError) as error:
            self._is_stopped = True
            _log.warning("small files stay as they are until the shard is reopened: %s", error)

    def _remove_one(self, store: Joinable) -> bool:
        """Remove the blocks of one range, those of files left alone excepted.

        IMPORTANT: what is deleted in a file brings a compaction of it, and so a file must be
        readable first, as for joining.
        """
        if not self._dead:
            return False
        start, end = dead = self._dead[0]
        if store.has_blocks(start, end):
            for file in store.log_files():
                if start <= file.last and file.first < end and not self._is_good(store, file):
                    if not self._goes_on():
                        return False
                    store.remove_blocks(start, max(start, file.first))
                    start = file.last + b"\0"
            if start < end:
                store.remove_blocks(start, end)
            self._drop_files(store, *dead)
        self._dead.popleft()
        return True

    def _drop_files(self, store: Joinable, start: bytes, end: bytes) -> None:
        """Rewrite the files that lie in a range whose blocks were removed: as nothing."""
        inside = [file for file in store.log_files() if start <= file.first and file.last < end]
        for file in inside:
            if file.name not in self._left_alone and self._goes_on():
                store.join(file.first, file.last)

    def _is_good(self, store: Joinable, file: StoredFile) -> bool:
        """Tell whether a file can be rewritten; False too if looking was left early."""
        if file.name in self._left_alone:
            return False
        if file.name in self._unproven:
            if not store.is_readable(file, self._goes_on):
                if self._goes_on():
                    self._left_alone.add(file.name)
                return False
            self._unproven.discard(file.name)
        return True

    def _join_one(self, store: Joinable) -> bool:
        group = self._chosen(store.log_files())
        size = sum(file.size for file in group)
        if not group or self._free_bytes(store.path) < 2 * size:
            return False
        if not all(self._is_good(store, file) for file in group):
            return True
        store.join(group[0].first, group[-1].last)
        # NOTE: a compaction that failed says nothing; the next write does.
        return group[0].name not in {file.name for file in store.log_files()}

    def _chosen(self, files: Sequence[StoredFile]) -> Sequence[StoredFile]:
        """Return what to join of the stretches between files that are left alone."""
        stretch: list[StoredFile] = []
        for file in files:
            if file.name not in self._left_alone:
                stretch.append(file)
                continue
            if group := group_to_join(stretch):
                return group
            stretch = []
        return group_to_join(stretch)

    def _goes_on(self) -> bool:
        return not self._is_stopped
