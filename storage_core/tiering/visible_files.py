"""The files that other programs see of a shard's parts: each sealed row once, whoever lists them.

    <shard>/sealed/part-0000000007.rows      a part's file, for as long as a reader may open it
    <shard>/parts/part-0000000007.parquet    a second name of it (a hard link), while the part list
                                             has the part

Readers of shardlog open the first name, so that a list of parts stays good for `keep_replaced`.
The second leaves as soon as the part is superseded or has expired, and a new part gets it once its
entry is durable. So `parts/*.parquet` never has a row twice. Old names leave before new ones come:
between the two, some system calls apart, rows of a compaction are under no name there.

Names are not synced. After a crash some may be missing, or be left over: the next opening for
writing corrects them, and so does the next sweep where the system refused one.

One thread at a time, which is alone with the shard; under the shard's append lock, so that a writer
that was closed changes no name of the next one.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from storage_core.errors import UnavailableError
from storage_core.format.keys import PREFIX_PART, prefix_end
from storage_core.format.part_entry import (
    VISIBLE_FILES,
    PartEntry,
    number_of_key,
    part_file_name,
    visible_file_name,
)
from storage_core.platform.durable_file import make_directories
from storage_core.read.cold.parts import parts_directory, visible_directory
from storage_core.read.view import ShardView
from storage_core.write.shard import Shard

# What file systems say that have no hard links, as FAT and some of networks, or no more of a file.
_NO_LINKS: Final = (
    *(errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS),
    *(errno.EMLINK, errno.EXDEV),
)


def prepared_directory(shard: Shard) -> Path:
    """Return where the shard's parts lie, made where it is missing.

    Raises:
        OSError: The system refuses it.
        ClosedError: The shard is closed.
    """
    with shard.guard.appending():
        make_directories(parts_directory(shard.context.directory))
        make_directories(visible_directory(shard.context.directory))
    return parts_directory(shard.context.directory)


def show_parts(shard: Shard, gone: Sequence[PartEntry], made: Sequence[PartEntry]) -> None:
    """Change the names after the part list has changed: parts went from it, others came.

    What the system refuses the next sweep does.

    Raises:
        ClosedError: The shard is closed; the next opening does it.
    """
    sealed = parts_directory(shard.context.directory)
    visible = visible_directory(shard.context.directory)
    try:
        with shard.guard.appending():
            # IMPORTANT: old names first. A row that is missing for a moment is seen the next time;
            # a row that is there twice makes a wrong sum.
            for part in gone:
                (visible / visible_file_name(part.number)).unlink(missing_ok=True)
            for part in made:
                _link(sealed / part.file_name, visible / visible_file_name(part.number))
    except (OSError, UnavailableError):
        shard.maintenance.has_stale_names = True


def settle(shard: Shard, view: ShardView) -> None:
    """Make the names those of the part list. The caller holds the append lock.

    Raises:
        OSError: The system refuses it; the next sweep tries again.
    """
    if not view.state.parts:
        return
    shard.maintenance.has_stale_names = True
    sealed = parts_directory(shard.context.directory)
    visible = visible_directory(shard.context.directory)
    entries = view.meta_items(PREFIX_PART, prefix_end(PREFIX_PART))
    numbers = {number_of_key(key) for key, _ in entries}
    listed = {visible_file_name(number): part_file_name(number) for number in numbers}
    files, kept = _inodes(sealed), set()
    for name, inode in _inodes(visible).items():
        # Copying a root may have made two files of one. What others put there stays.
        if name in listed and files.get(listed[name], inode) == inode:
            kept.add(name)
        elif fnmatchcase(name, VISIBLE_FILES):
            (visible / name).unlink(missing_ok=True)
    for name, file in listed.items():
        if name not in kept and file in files:
            make_directories(visible)
            _link(sealed / file, visible / name)
    shard.maintenance.has_stale_names = False


def settled(shards: Mapping[int, Shard]) -> Mapping[int, Shard]:
    """Return opened shards, with what a crash left of the names of their files corrected.

    What the system refuses the next sweep does.
    """
    for shard in shards.values():
        if not shard.state().parts:
            continue
        view = shard.snapshots.committed()
        try:
            with suppress(OSError, UnavailableError), shard.guard.appending():
                settle(shard, view)
        finally:
            view.close()
    return shards


def _inodes(directory: Path) -> dict[str, int]:
    if not directory.exists():
        return {}
    with os.scandir(directory) as found:
        return {one.name: one.inode() for one in found}


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
