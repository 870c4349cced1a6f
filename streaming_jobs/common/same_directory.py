"""Whether the directory that a task finds is the one that the driver saw, or a copy of it.

A copy (by rsync, from a backup, of a disk or of a whole machine) has the same path, the same ids
and the same rows up to some address, and then goes its own way or stays behind. It has not

* the directory's inode on its file system. Of a directory, since a copy may share files by hard
  links;
* on another machine, where the inode happens to be the same, the time at which a file was made that
  is never written again: the kernel sets it, and no program can.

On one machine, whatever containers it runs, the inode and its device are compared, and no time: a
change of owner would be taken for a copy. So a root that was removed and restored while a job runs
may have its inodes again; a log behind what the driver saw is refused then as anywhere. On another
machine a local file system is another disk, and what it holds a copy. Devices of network file
systems have other numbers on each machine, so there inode and time are compared.
"""

import os
import platform
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, Self

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS: Final = Path("/proc/self/mountinfo")
# File systems that no other machine has at the same time. One that is not named may be shared.
_LOCAL: Final = frozenset(
    {
        *("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "reiserfs"),
        *("overlay", "ramfs", "rootfs", "tmpfs", "xfs", "zfs"),
    }
)
_MOUNT_POINT, _AFTER_FIELDS = 4, " - "
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_DEVICES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """Which directory it is, as one machine sees it.

    Attributes:
        machine: The machine, since it was started.
        device: The number of the file system there.
        inode: The directory's.
        made_ns: When a file in it was made that is never written again.
        is_local: Whether no other machine can have the file system.
    """

    machine: str
    device: int
    inode: int
    made_ns: int
    is_local: bool

    @classmethod
    def of(cls, directory: Path, file: str) -> Self:
        """Return which directory lies at a path.

        Args:
            directory: The directory.
            file: The name of the file that is never written again.

        Raises:
            OSError: One of the two is not there.
        """
        status, file_status = directory.stat(), (directory / file).stat()
        is_local = _is_local(status.st_dev, str(directory))
        return cls(_machine(), status.st_dev, status.st_ino, file_status.st_ctime_ns, is_local)

    def is_on_one_machine(self, here: Self) -> bool:
        """Tell whether both are on one file system of one machine, where nothing is seen late."""
        return self.machine == here.machine and self.device == here.device

    def is_same(self, here: Self) -> bool:
        """Tell whether a directory that was seen elsewhere is this one."""
        if self.is_on_one_machine(here):
            return self.inode == here.inode
        if self.is_local and here.is_local:
            return False
        return (self.inode, self.made_ns) == (here.inode, here.made_ns)


@cache
def _machine() -> str:
    """Return what all processes of a machine, and no other machine's, find."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return platform.node()


@lru_cache(maxsize=_DEVICES_MAX)
def _is_local(_device: int, directory: str) -> bool:
    """Tell whether a directory lies on a file system of this machine alone."""
    try:
        mounts = _MOUNTS.read_text()
    except OSError:
        return False
    place = Path(os.path.realpath(directory))
    nearest, kind = -1, ""
    for line in mounts.splitlines():
        fields, _, described = line.partition(_AFTER_FIELDS)
        point = Path(_unescaped(fields.split()[_MOUNT_POINT]))
        # Of several at one place the last one hides the others.
        if place.is_relative_to(point) and len(point.parts) >= nearest:
            nearest, kind = len(point.parts), described.split()[0]
    return kind in _LOCAL


def _unescaped(text: str) -> str:
    """Return a path as it is; the kernel writes blanks in it as three octal digits."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
