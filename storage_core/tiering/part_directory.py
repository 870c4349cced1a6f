"""The files of a shard's parts follow its part list: their visible names, and obsolete files.

    <shard>/sealed/part-0000000007.rows      a part's file, for as long as a reader may open it
    <shard>/parts/part-0000000007.parquet    a second name of it (a hard link), while the part list
                                             has the part

Readers of shardlog open the first name, so that a part list of a moment that has passed, as DuckDB
and Spark hold it, stays good for `keep_replaced`. It counts from the file's time of change, which
is set as the part is replaced, by the clock of the log. After a crash in between it counts from the
time at which the file was written, and the file is deleted the sooner.

The second name is removed as soon as the part is replaced or has expired, and a new part gets it
once its entry is durable. So `parts/*.parquet` never has a row twice. Old names are removed before
new ones are made: between the two, some system calls apart, rows of a compaction are under no name
there. Names are not synced. After a crash some may be missing, or be left over: the next opening
for writing corrects them, and so does the next deletion of obsolete files where the system refused
one.

One thread at a time, which is alone with the shard; changes are made under the append lock, so that
a writer that was closed changes no file of the next one, whose parts may have the same names.
"""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from storage_core.errors import ShardlogError, UnavailableError
from storage_core.format.keys import PREFIX_PART, prefix_end
from storage_core.format.part_entry import (
    PART_FILES,
    VISIBLE_FILES,
    PartEntry,
    number_of_key,
    part_file_name,
    visible_file_name,
)
from storage_core.parts.snapshot import parts_directory, parts_in, visible_directory
from storage_core.platform.durable_file import make_directories, taking_errors
from storage_core.read.snapshot import ShardSnapshot
from storage_core.write.shard import Shard

_NS_A_US: Final = 1000
# What file systems say that have no hard links, as FAT and some of networks, or no more of a file.
_NO_LINKS: Final = (
    *(errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS),
    *(errno.EMLINK, errno.EXDEV),
)


@contextmanager
def room_for_parts(shard: Shard, view: ShardSnapshot) -> Iterator[None]:
    """Make the directories in which parts are built; delete what is not to be published.

    Files with numbers that were not given yet are what a crash left, and nobody ever read them:
    they are deleted before. On an error what was built inside is deleted too: on a disk that is
    full it has the room that others are to write to. The owner deletes it, since a builder process
    that was left alone may find the files of the next owner under these names. What the system does
    not let be deleted the next round looks for.

    Raises:
        OSError: The system refuses it.
        ClosedError: The shard is closed.
        UnavailableError: The system does not let a file be deleted.
    """
    directory = parts_directory(shard.context.directory)
    with shard.guard.appending():
        make_directories(directory)
        make_directories(visible_directory(shard.context.directory))
        for file in _unpublished(directory, view):
            _unlink(file)
    try:
        yield
    except BaseException:
        shard.maintenance.has_looked_for_files = False
        with suppress(ShardlogError, OSError), shard.guard.appending():
            for file in _unpublished(directory, view):
                with suppress(OSError):
                    file.unlink(missing_ok=True)
        raise


def show_parts(shard: Shard, obsolete: Sequence[PartEntry], built: Sequence[PartEntry]) -> None:
    """Change the visible names after the part list has changed.

    What the system refuses the next deletion of obsolete files does.

    Raises:
        ClosedError: The shard is closed; the next opening does it.
    """
    sealed = parts_directory(shard.context.directory)
    visible = visible_directory(shard.context.directory)
    try:
        with shard.guard.appending():
            # IMPORTANT: old names first. A row that is missing for a moment is seen the next time;
            # a row that is there twice makes a wrong sum.
            for part in obsolete:
                (visible / visible_file_name(part.number)).unlink(missing_ok=True)
            for part in built:
                _link(sealed / part.file_name, visible / visible_file_name(part.number))
    except (OSError, UnavailableError):
        shard.maintenance.has_wrong_names = True


def discard_files(shard: Shard, obsolete: Sequence[PartEntry]) -> None:
    """Delete the files of parts that were replaced, durably: now, or after `keep_replaced`."""
    if not obsolete:
        return
    directory = parts_directory(shard.context.directory)
    files = [directory / part.file_name for part in obsolete]
    if not _keep_ns(shard):
        shard.free((), (), files)
        return
    now_ns = _now_ns(shard)
    for file in files:
        # One that is gone need not stay.
        with suppress(OSError):
            os.utime(file, ns=(now_ns, now_ns))
    since = shard.maintenance.obsolete_since_ns
    shard.maintenance.obsolete_since_ns = now_ns if since is None else min(since, now_ns)


def delete_obsolete_files(shard: Shard) -> None:
    """Delete obsolete files that have stayed for `keep_replaced`, where that is due.

    It is due where one has, where nobody has looked since the shard was opened, and where a visible
    name is wrong. Files go once no view is open that may read them. Those that the system did not
    let be deleted before are tried again.

    Raises:
        UnavailableError: Something else held the shard for too long, or the system does not let a
            file be deleted.
    """
    shard.guard.maintain(lambda: _delete_obsolete(shard))


def _delete_obsolete(shard: Shard) -> None:
    overdue: list[Path] = []
    if _is_deletion_due(shard):
        view = shard.snapshots.committed()
        try:
            overdue = _overdue(shard, view)
        finally:
            view.close()
    shard.free((), (), overdue)


def _overdue(shard: Shard, view: ShardSnapshot) -> list[Path]:
    """Delete files that nobody ever read; return the obsolete ones that stayed long enough."""
    directory = parts_directory(shard.context.directory)
    names = {part.file_name for part in parts_in(view).entries}
    keep_ns, now_ns = _keep_ns(shard), _now_ns(shard)
    overdue: list[Path] = []
    waiting: list[int] = []
    with (
        taking_errors(directory, "files of parts cannot be removed"),
        shard.guard.appending(),
    ):
        correct_names(shard, view)
        for file in _unpublished(directory, view):
            _unlink(file)
        # What others put there stays.
        for file in directory.glob(PART_FILES):
            if file.name in names:
                continue
            if now_ns - (since := _obsolete_since(file, now_ns)) >= keep_ns:
                overdue.append(file)
            else:
                waiting.append(since)
    shard.maintenance.has_looked_for_files = True
    shard.maintenance.obsolete_since_ns = min(waiting, default=None)
    return overdue


def correct_names(shard: Shard, view: ShardSnapshot) -> None:
    """Make the visible names those of the part list. The caller holds the append lock.

    Raises:
        OSError: The system refuses it; the next deletion of obsolete files tries again.
    """
    if not view.state.parts:
        return
    shard.maintenance.has_wrong_names = True
    sealed = parts_directory(shard.context.directory)
    visible = visible_directory(shard.context.directory)
    entries = view.meta_items(PREFIX_PART, prefix_end(PREFIX_PART))
    numbers = {number_of_key(key) for key, _ in entries}
    listed = {visible_file_name(number): part_file_name(number) for number in numbers}
    files, correct = _inodes(sealed), set()
    for name, inode in _inodes(visible).items():
        # Copying a root may have made two files of one. What others put there stays.
        if name in listed and files.get(listed[name], inode) == inode:
            correct.add(name)
        elif fnmatchcase(name, VISIBLE_FILES):
            (visible / name).unlink(missing_ok=True)
    for name, file in listed.items():
        if name not in correct and file in files:
            make_directories(visible)
            _link(sealed / file, visible / name)
    shard.maintenance.has_wrong_names = False


def with_correct_names(shards: Mapping[int, Shard]) -> Mapping[int, Shard]:
    """Return opened shards, with what a crash left of the visible names corrected.

    What the system refuses the next deletion of obsolete files does.
    """
    for shard in shards.values():
        if not shard.state().parts:
            continue
        view = shard.snapshots.committed()
        try:
            with suppress(OSError, UnavailableError), shard.guard.appending():
                correct_names(shard, view)
        finally:
            view.close()
    return shards


def _unpublished(directory: Path, view: ShardSnapshot) -> list[Path]:
    """Return the files of parts whose numbers were not given yet."""
    first = part_file_name(view.state.parts)
    return [file for file in directory.glob(PART_FILES) if file.name >= first]


def _is_deletion_due(shard: Shard) -> bool:
    memory = shard.maintenance
    if not memory.has_looked_for_files or memory.has_wrong_names:
        return True
    since = memory.obsolete_since_ns
    # One of the future is looked at: the clock was set back.
    return since is not None and not 0 <= _now_ns(shard) - since < _keep_ns(shard)


def _obsolete_since(file: Path, now_ns: int) -> int:
    """Return since when a file is obsolete; a time to come, of a clock that was set back, is now.

    A file of which that cannot be read, or not be set, has been obsolete for ever.
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


def _unlink(file: Path) -> None:
    with taking_errors(file, "a file of parts cannot be removed"):
        file.unlink(missing_ok=True)


def _inodes(directory: Path) -> dict[str, int]:
    if not directory.exists():
        return {}
    with os.scandir(directory) as entries:
        return {entry.name: entry.inode() for entry in entries}


def _link(file: Path, name: Path) -> None:
    """Give a file a second name.

    Raises:
        UnavailableError: The file system has no such names, or not another one.
        OSError: The system refuses it for something else.
    """
    try:
        os.link(file, name)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        message = (
            f"parts need hard links, and the file system does not give one: {error.strerror}; "
            "move the root to one that does, such as ext4 or XFS"
        )
        raise UnavailableError(message, path=name) from error
