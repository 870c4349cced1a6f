"""How many files a process may hold open, counted before they are needed.

A writer that meets the limit in the middle of a flush is poisoned and cannot be opened again.
So each store of a writer has a bound, RocksDB keeps to it (`tables`), and an opening for which
there is no room is refused with the number that would do:

    a writer's shard   its own files (lock, marker, WAL, MANIFEST, LOG, directories, a segment to
                       write and one to read) and at least ten of its store's; more where the
                       limit leaves room
    a reader's shard   its own files and all of its store's, since the writer removes files
                       that it may still need; asked for as the shard is opened, and again as
                       its store has more of them

What a writer may still open is promised here. What a reader has open is not: it is found among
what the process has open, as sockets are.

Where the soft limit does not suffice but the hard one does, the soft limit is raised, and a line
is logged; it is a bound that programs are meant to move. For writers it is raised to what is
needed and no further; for readers, whose need comes shard by shard, to the double at least.

One ledger a process. Any thread may call.
"""

import logging
import os
import resource
import threading
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from storage_core.errors import InvalidRequestError
from storage_core.platform import fork_guard

WRITER_FILES: Final = 12
READER_FILES: Final = 9
TABLES_MIN: Final = 10
TABLES_MAX: Final = 512
# For what is open for a moment only: flushes, merges, options, staged files.
SPARE_FILES: Final = 32
# Of what is left each further store may have this part, so that there is always more left.
_TABLES_SHARE: Final = 512
_OPEN_NOW: Final = Path("/proc/self/fd")

_log: Final = logging.getLogger(__name__)
Limits = tuple[int, int]


def files_needed(shards: int) -> int:
    """Return how many files a writer of so many shards holds open at least, at its fullest."""
    return shards * (WRITER_FILES + TABLES_MIN) + SPARE_FILES


def _limits() -> Limits:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _set_limits(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def names_open_now() -> list[str]:
    """Return what this process has open; each name that is gone meanwhile as an empty one."""
    return [_name_of(descriptor) for descriptor in _open_now()]


def _open_now() -> list[str]:
    """Return the descriptors that this process has open."""
    return os.listdir(_OPEN_NOW)  # noqa: PTH208 - a descriptor a name, no paths wanted


def _name_of(descriptor: str) -> str:
    """Return the name of what a descriptor has open, empty if it is gone."""
    try:
        return os.readlink(f"{_OPEN_NOW}/{descriptor}")  # noqa: PTH115 - half of its time
    except OSError:
        return ""


class OpenFilesError(InvalidRequestError):
    """This process may not have as many files open as a call needs."""


@dataclass(frozen=True, slots=True)
class _Promise:
    """The files that a writer's store may have open, and the shard's directory they lie in."""

    files: int
    directory: str


class OpenFiles:
    """Who of this process's stores may have how many files open."""

    def __init__(
        self,
        limits: Callable[[], Limits] = _limits,
        set_limits: Callable[[Limits], None] = _set_limits,
        open_now: Callable[[], list[str]] = _open_now,
        name_of: Callable[[str], str] = _name_of,
    ) -> None:
        """Start with no store open."""
        self._limits = limits
        self._set_limits = set_limits
        self._open_now = open_now
        self._name_of = name_of
        self._promises: WeakKeyDictionary[object, _Promise] = WeakKeyDictionary()
        self._lock = threading.Lock()
        fork_guard.register(self)

    def leave_to_parent(self, _process: int) -> None:
        """Start anew; what the parent has open is counted like other files."""
        self._promises = WeakKeyDictionary()
        self._lock = threading.Lock()
        fork_guard.register(self)

    def require_for_writer(self, shards: int, stream: str) -> None:
        """See to it that a writer can hold so many more shards.

        Raises:
            InvalidRequestError: It cannot; the message has the number that is needed.
        """
        if shards:
            more = shards * (WRITER_FILES + TABLES_MIN)
            self._require(more, f"{shards} shards to write", stream, None)

    def require_for_reader(
        self, files: int, purpose: str, stream: str, shard: int | None = None
    ) -> None:
        """See to it that a reader can hold so many more files, which are told by a phrase.

        Raises:
            InvalidRequestError: It cannot; the message has the number that is needed.
        """
        self._require(files, purpose, stream, shard, is_first_of_many=True)

    def tables_for_one_more(self) -> int:
        """Return how many of its files one more writer's store may keep open."""
        with self._lock:
            room = self._limits()[0] - self._promised() - files_needed(1)
        return TABLES_MIN + max(0, min(TABLES_MAX - TABLES_MIN, room // _TABLES_SHARE))

    def opened(self, store: object, tables: int, shard: Path) -> None:
        """Keep a writer's store in mind until `closed`, or until nobody has it any more."""
        promise = _Promise(WRITER_FILES + tables, os.path.realpath(shard))
        with self._lock:
            self._promises[store] = promise

    @property
    def stores(self) -> int:
        """How many stores this process has open for writing."""
        return len(self._promises)

    def closed(self, store: object) -> None:
        """Forget a store."""
        with self._lock:
            self._promises.pop(store, None)

    def _promised(self) -> int:
        return sum(promise.files for promise in self._promises.values())

    def _require(
        self,
        more: int,
        purpose: str,
        stream: str,
        shard: int | None,
        *,
        is_first_of_many: bool = False,
    ) -> None:
        with self._lock:
            soft, hard = self._limits()
            promised = self._promised()
            needed = self._others(soft) + promised + more + SPARE_FILES
            if soft == resource.RLIM_INFINITY or needed <= soft:
                return
            if hard != resource.RLIM_INFINITY and needed > hard:
                message = (
                    f"{purpose} need {needed} open files in this process, {promised} of them for "
                    f"shards open here already; it may have {hard}: raise the hard limit "
                    "(ulimit -Hn), or open fewer shards"
                )
                raise OpenFilesError(message, stream=stream, shard=shard)
            raised = max(needed, 2 * soft) if is_first_of_many else needed
            raised = raised if hard == resource.RLIM_INFINITY else min(raised, hard)
            self._set_limits((raised, hard))
            _log.warning(
                "the limit on open files is raised from %d to %d: %s", soft, raised, purpose
            )

    def _others(self, soft: int) -> int:
        """Return how many files are open that no writer's store was promised.

        Of what is open in a shard that is written here, each file once is the writer's, up to
        its promise; a reader beside it has the same files open another time.
        """
        promised: Counter[str] = Counter()
        for promise in self._promises.values():
            promised[promise.directory] += promise.files
        try:
            descriptors = self._open_now()
        except OSError:
            # Not even the directory can be listed: the limit is met.
            return soft
        if not promised:
            # Readers alone need no names: one is asked for by each shard that they open.
            return len(descriptors)
        names = {self._name_of(descriptor) for descriptor in descriptors}
        open_by_shard = Counter(_shard_of(name, promised) for name in names)
        return len(descriptors) - sum(
            min(open_by_shard[shard], files) for shard, files in promised.items()
        )


def _shard_of(name: str, shards: Container[str]) -> str:
    """Return the directory that a file of a shard, or of its store, lies in; else nothing."""
    directory = name.rpartition("/")[0]
    while directory and directory not in shards:
        directory = directory.rpartition("/")[0]
    return directory


@cache
def open_files() -> OpenFiles:
    """Return the process's ledger."""
    return OpenFiles()
