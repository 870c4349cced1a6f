"""Files of parts that no entry names: those that were replaced stay for a while, others go.

Whoever asks parts by a list of a moment that has passed, as DuckDB and Spark do, opens some of its
files late. So what compaction or mending replaces stays for the stream's `keep_replaced`, counted
from the file's time of change: that is set as it is replaced, by the clock of the log. A crash in
between leaves the time at which it was written, and it goes the sooner.

Files go under the append lock of a shard that is open: once it is closed another writer may have
it, whose parts may have the very names.

One thread at a time, which is alone with the shard.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from storage_core.errors import ShardlogError
from storage_core.format.part_entry import PART_FILES, part_file_name
from storage_core.platform.durable_file import taking_errors
from storage_core.read.cold.parts import parts_directory, parts_in
from storage_core.read.view import ShardView
from storage_core.tiering.visible_files import settle
from storage_core.write.shard import Shard

_NS_A_US: Final = 1000


def let_go(shard: Shard, files: Sequence[Path]) -> None:
    """Let files go whose parts have been replaced, durably: at once, or after `keep_replaced`."""
    if not _keep_ns(shard):
        shard.free((), (), files)
        return
    now_ns = _now_ns(shard)
    for file in files:
        # One that is gone need not stay.
        with suppress(OSError):
            os.utime(file, ns=(now_ns, now_ns))
    since = shard.maintenance.superseded_since_ns
    shard.maintenance.superseded_since_ns = now_ns if since is None else min(since, now_ns)


def sweep(shard: Shard, view: ShardView) -> None:
    """Remove the files of parts that no entry names, but those that are to stay.

    What has a number that was not given yet a crash has left, and nobody ever read. The others had
    entries: they go once no view is open that may read them, so not before this one is closed.

    Raises:
        UnavailableError: The system does not let one be removed.
    """
    shard.free((), (), _swept(shard, view))


def sweep_due(shard: Shard) -> None:
    """Do so where files have stayed for long enough, or nobody has looked since the opening.

    Those that the system did not let go before are tried again.

    Raises:
        UnavailableError: Something else held the shard for too long, or the system does not let a
            file be removed.
    """
    shard.guard.maintain(lambda: _sweep_due(shard))


def _sweep_due(shard: Shard) -> None:
    gone: list[Path] = []
    if _is_due(shard):
        view = shard.snapshots.committed()
        try:
            gone = _swept(shard, view)
        finally:
            view.close()
    shard.free((), (), gone)


def _swept(shard: Shard, view: ShardView) -> list[Path]:
    """Remove files that nobody ever read; return those that have stayed for long enough."""
    directory = parts_directory(shard.context.directory)
    names = {part.file_name for part in parts_in(view).entries}
    not_given = part_file_name(view.state.parts)
    keep_ns, now_ns = _keep_ns(shard), _now_ns(shard)
    gone: list[Path] = []
    waiting: list[int] = []
    with (
        taking_errors(directory, "files of parts cannot be removed"),
        shard.guard.appending(),
    ):
        settle(shard, view)
        # What others put there stays.
        for file in directory.glob(PART_FILES):
            if file.name in names:
                continue
            if file.name >= not_given:
                _unlink(file)
            elif now_ns - (since := _since(file, now_ns)) >= keep_ns:
                gone.append(file)
            else:
                waiting.append(since)
    shard.maintenance.superseded_since_ns = min(waiting, default=None)
    shard.maintenance.is_swept = True
    return gone


def clear(shard: Shard, file: Path) -> None:
    """Remove what a crash left under the name of a part that is made next: it is nobody's.

    Raises:
        UnavailableError: The system does not let it be removed.
    """
    with shard.guard.appending():
        _unlink(file)


@contextmanager
def cleared_on_failure(shard: Shard, view: ShardView) -> Iterator[None]:
    """Remove what was made inside where it is not to be published.

    On a disk that is full it has the room that others are to write to. The owner removes it, since
    a process that was left alone may find the files of the next owner under these names. What the
    system does not let go the next turn looks for.
    """
    not_given = part_file_name(view.state.parts)
    try:
        yield
    except BaseException:
        directory = parts_directory(shard.context.directory)
        shard.maintenance.is_swept = False
        with suppress(ShardlogError, OSError), shard.guard.appending():
            for file in directory.glob(PART_FILES):
                if file.name >= not_given:
                    with suppress(OSError):
                        file.unlink(missing_ok=True)
        raise


def _unlink(file: Path) -> None:
    with taking_errors(file, "a file of parts cannot be removed"):
        file.unlink(missing_ok=True)


def _is_due(shard: Shard) -> bool:
    maintenance = shard.maintenance
    if not maintenance.is_swept or maintenance.has_stale_names:
        return True
    since = maintenance.superseded_since_ns
    # One of the future is looked at: the clock was set back.
    return since is not None and not 0 <= _now_ns(shard) - since < _keep_ns(shard)


def _since(file: Path, now_ns: int) -> int:
    """Return since when a file waits; where that is to come the clock was set back, and it is now.

    One of which that cannot be told, or not be set, has waited for ever.
    """
    try:
        since = file.stat().st_mtime_ns
        if since > now_ns:
            os.utime(file, ns=(now_ns, now_ns))
            return now_ns
    except OSError:
        return 0
    return since


def _keep_ns(shard: Shard) -> int:
    return shard.options.keep_replaced // timedelta(microseconds=1) * _NS_A_US


def _now_ns(shard: Shard) -> int:
    return shard.context.environment.clock.now_ns()
