"""Compaction of the log family: small neighbouring files are rewritten as one large file.

Blocks are written in address order, so the files of `log` never overlap, and RocksDB's leveled
compaction only moves them: one file a flush, for ever. This module chooses what to rewrite, so
that no block is rewritten more than a few times, whatever the shard holds:

    large      a file of 128 MiB or more is never rewritten again
    settled    small neighbours of 256 MiB together become one large file
    recent     the eight or more newest become one, if none of them is more than a quarter of
               it; so each such rewrite at least quadruples the file that a block lies in

A shard of N bytes so has at most N / 128 MiB large files and some dozen small ones.

One thread a process compacts, one group at a time, beside writers and readers. RocksDB refuses
all writes after a compaction that met an unreadable block. So files that were there when the
store was opened are read through first, and left alone if that fails. What this process wrote
itself was just in memory.
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
RECENT_FILES_MIN: Final = 8
_GROWTH_MIN: Final = 4
# So many bytes are written between two checks of the files.
CHECK_BYTES: Final = 16 * 2**20
_PRINTED_NUMBER: Final = re.compile(r"^ (\d+):\d+", re.MULTILINE)

_log: Final = logging.getLogger(__name__)

Task = Callable[[], None]
KeyRange = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class SstFile:
    """A file of the log family: its first and last key, and its size."""

    name: str
    first: bytes
    last: bytes
    size: int


class CompactableLog(Protocol):
    """What compaction needs of a store."""

    path: Path

    def log_files(self) -> list[SstFile]:
        """Return the files of the log family by their first keys."""
        ...

    def is_readable(self, file: SstFile, may_go_on: Callable[[], bool]) -> bool:
        """Tell whether every block of a file can be read; False if it was stopped."""
        ...

    def compact(self, first: bytes, last: bytes) -> None:
        """Rewrite what lies between two keys, both included, as one file."""
        ...

    def has_blocks(self, start: bytes, end: bytes) -> bool:
        """Tell whether there is any block from one key to before another."""
        ...

    def remove_blocks(self, start: bytes, end: bytes) -> None:
        """Remove the blocks from one key to before another."""
        ...


def parse_log_files(family: str, all_files: Iterable[Mapping[str, Any]]) -> list[SstFile]:
    """Return a family's files by their first keys.

    Args:
        family: The family's files as RocksDB prints them: ` 9:16780015[1 .. 32][...` a line.
        all_files: The files of all families, which do not say whose they are.
    """
    numbers = {int(number) for number in _PRINTED_NUMBER.findall(family)}
    files = [
        SstFile(file["name"], file["start_key"], file["end_key"], file["size"])
        for file in all_files
        if int(file["name"].strip("/").removesuffix(".sst")) in numbers
    ]
    return sorted(files, key=lambda file: file.first)


def files_to_compact(files: Sequence[SstFile]) -> Sequence[SstFile]:
    """Return the neighbours to rewrite as one next; none if there are few enough.

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
    return _recent_files_to_compact(files[begin:])


def _recent_files_to_compact(small_files: Sequence[SstFile]) -> Sequence[SstFile]:
    total, largest, longest = 0, 0, 0
    for count, file in enumerate(reversed(small_files), start=1):
        total += file.size
        largest = max(largest, file.size)
        if count >= RECENT_FILES_MIN and _GROWTH_MIN * largest <= total:
            longest = count
    return small_files[len(small_files) - longest :]


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "shardlog-compact")


def _in_background(task: Task) -> "Future[None] | None":
    try:
        return _thread().submit(task)
    except RuntimeError:
        # The interpreter is ending, or the system has no more threads.
        return None


def _free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


class LogCompactor:
    """Keeps the log files of one store few. Any thread may call it."""

    def __init__(
        self,
        store: CompactableLog,
        start: "Callable[[Task], Future[None] | None]" = _in_background,
        free_bytes: Callable[[Path], int] = _free_bytes,
    ) -> None:
        """Check the files of the store, and compact them in the background if they need it."""
        # A weak reference: the store owns its compactor.
        self._store = ref(store)
        self._start = start
        self._free_bytes = free_bytes
        self._lock = threading.Lock()
        self._running: Future[None] | None = None
        self._is_stopped = False
        self._written = 0
        # Only the compaction thread takes from it.
        self._dead_ranges: deque[KeyRange] = deque()
        self._unreadable: set[str] = set()
        files = store.log_files()
        self._unchecked = {file.name for file in files}
        if files_to_compact(files):
            self._schedule()

    def count_written(self, size: int) -> None:
        """Count bytes written to the log; check the files once they are enough."""
        self._written += size
        if self._written >= CHECK_BYTES:
            self._written = 0
            self._schedule()

    def remove(self, ranges: Iterable[KeyRange]) -> None:
        """Delete the blocks of these ranges, to which nothing refers, and the files they fill."""
        self._dead_ranges.extend(ranges)
        self._schedule()

    def settle(self) -> None:
        """Wait for the compaction that is running."""
        with self._lock:
            running = self._running
        if running is not None:
            wait([running])

    def stop(self) -> None:
        """Start nothing more, and wait for the group that is being compacted."""
        with self._lock:
            self._is_stopped = True
            running = self._running
        if running is not None and not running.cancel():
            wait([running])

    def _schedule(self) -> None:
        with self._lock:
            is_idle = self._running is None or self._running.done()
            if is_idle and not self._is_stopped:
                self._running = self._start(self._run)

    def _run(self) -> None:
        """Compact group after group; a failure ends compaction until the next opening."""
        store = self._store()
        if store is None:
            return
        try:
            while self._may_go_on() and (
                self._remove_next_range(store) or self._compact_next(store)
            ):
                pass
        except (ShardlogError, OSError) as error:
            self._is_stopped = True
            _log.warning("small log files are not compacted until the shard is reopened: %s", error)

    def _remove_next_range(self, store: CompactableLog) -> bool:
        """Delete the blocks of one range, except those of unreadable files.

        IMPORTANT: deleting in a file makes RocksDB compact it, so the file must be readable
        first.
        """
        if not self._dead_ranges:
            return False
        start, end = dead = self._dead_ranges[0]
        if store.has_blocks(start, end):
            for file in store.log_files():
                if start <= file.last and file.first < end and not self._can_rewrite(store, file):
                    if not self._may_go_on():
                        return False
                    store.remove_blocks(start, max(start, file.first))
                    start = file.last + b"\0"
            if start < end:
                store.remove_blocks(start, end)
            self._drop_files(store, *dead)
        self._dead_ranges.popleft()
        return True

    def _drop_files(self, store: CompactableLog, start: bytes, end: bytes) -> None:
        """Rewrite the files within a range whose blocks were deleted, which removes them."""
        inside = [file for file in store.log_files() if start <= file.first and file.last < end]
        for file in inside:
            if file.name not in self._unreadable and self._may_go_on():
                store.compact(file.first, file.last)

    def _can_rewrite(self, store: CompactableLog, file: SstFile) -> bool:
        """Tell whether a file can be rewritten; False too if the check was cut short."""
        if file.name in self._unreadable:
            return False
        if file.name in self._unchecked:
            if not store.is_readable(file, self._may_go_on):
                if self._may_go_on():
                    self._unreadable.add(file.name)
                return False
            self._unchecked.discard(file.name)
        return True

    def _compact_next(self, store: CompactableLog) -> bool:
        group = self._choose(store.log_files())
        size = sum(file.size for file in group)
        if not group or self._free_bytes(store.path) < 2 * size:
            return False
        if not all(self._can_rewrite(store, file) for file in group):
            return True
        store.compact(group[0].first, group[-1].last)
        # NOTE: a compaction that failed says nothing; the next write does.
        return group[0].name not in {file.name for file in store.log_files()}

    def _choose(self, files: Sequence[SstFile]) -> Sequence[SstFile]:
        """Return what to compact, between the unreadable files."""
        neighbours: list[SstFile] = []
        for file in files:
            if file.name not in self._unreadable:
                neighbours.append(file)
                continue
            if group := files_to_compact(neighbours):
                return group
            neighbours = []
        return files_to_compact(neighbours)

    def _may_go_on(self) -> bool:
        return not self._is_stopped
