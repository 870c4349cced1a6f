"""A FUSE file system that loses power, runs full and fails fsync on command.

What a power loss leaves is written in `disk`, how to give commands in `daemon`.

Between `cut` and `up` every call fails with EIO. Locks (flock, fcntl) are the kernel's own.

The tree is seen in a folder of the mount that is named after the epoch, which every cut and
format raises. So nothing that the kernel has cached of before the cut can be met after it, and
it may cache what it likes; but where calls are to be refused it caches nothing, so that each
look at a name and each read of a file that is opened anew comes here.
"""

import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import mfusepy

from tests.faults.lossy.disk import HIDDEN, Directory, File, LossyDisk, Write

KEEP_SIZE = 0x01
PUNCH_HOLE = 0x02
CAPACITY_BYTES = 1 << 33
EVERYTHING = "everything"
HOLD_MAX_S = 60.0
# Which calls an error can come from; all where it is not here. Closing is never refused.
REFUSING: dict[int, frozenset[str]] = {
    errno.EMFILE: frozenset({"open", "create", "opendir"}),
    errno.ENOSPC: frozenset({"create", "write", "mkdir", "link", "rename"}),
}
NEVER_REFUSED = frozenset({"init", "destroy", "release", "releasedir", "flush", "statfs"})


@dataclass
class Faults:
    """What is to go wrong, and what has. Guarded by the lock of `LossyOperations`."""

    epoch: int = 0
    is_down: bool = False
    changes: int = 0
    changes_until_cut: int | None = None
    survivors: int | str | None = None
    ignore_syncs: bool = False
    syncs: int = 0
    syncs_until_failure: int | None = None
    bytes_left: int | None = None
    sync_delay_s: float = 0.0
    hold_syncs: bool = False
    held: int = 0
    refusal: int = 0
    refuses_under: str = ""
    calls_until_refusal: int = 0
    refusals_left: int | None = None
    refused: int = 0
    refused_call: str = ""


class LossyOperations(mfusepy.Operations):
    """The calls of the kernel, on a `LossyDisk`, with faults in between."""

    use_ns = True

    def __init__(self, *, is_cached: bool = True) -> None:
        self._is_cached = is_cached
        self.disk = LossyDisk()
        self.faults = Faults()
        self.changed = threading.Condition(threading.RLock())
        self._top = Directory(1, stat.S_IFDIR | 0o755)
        self._handles: dict[int, File | Directory] = {}
        self._last_handle = 0

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:
        config_3.use_ino = 1
        config_3.nullpath_ok = int(self._is_cached)
        config_3.attr_timeout = 3600.0 if self._is_cached else 0.0
        config_3.entry_timeout = 3600.0 if self._is_cached else 0.0
        config_3.negative_timeout = 0.0
        config_3.kernel_cache = int(self._is_cached)
        sys.stdout.write('{"mounted": true}\n')
        sys.stdout.flush()

    # Refusals

    def refusal_of(self, call: str, path: bytes | None) -> int:
        """Return the error that a call is to end with; 0 for none."""
        with self.changed:
            faults = self.faults
            if not faults.refusal or call in NEVER_REFUSED:
                return 0
            if call not in REFUSING.get(faults.refusal, {call}):
                return 0
            if path is None or faults.refuses_under.encode() not in path:
                return 0
            if faults.calls_until_refusal:
                faults.calls_until_refusal -= 1
                return 0
            if faults.refusals_left is not None:
                if not faults.refusals_left:
                    return 0
                faults.refusals_left -= 1
            faults.refused += 1
            faults.refused_call = f"{call} {os.fsdecode(path)}"
            return faults.refusal

    # Power

    def cut(self, survivors: int | str | None) -> None:
        """Take the power away, and with it every open handle."""
        with self.changed:
            if survivors == EVERYTHING:
                self.disk.sync_all()
            self.disk.lose_power(Random(survivors) if isinstance(survivors, int) else None)
            self._handles.clear()
            self.faults.epoch += 1
            self.faults.is_down = True
            self.faults.changes_until_cut = None
            self.changed.notify_all()

    def format(self) -> None:
        """Begin anew: no files, no handles, no faults."""
        with self.changed:
            self.cut(None)
            self.disk = LossyDisk(self.disk.next_ino)
            self.faults = Faults(self.faults.epoch)

    @contextmanager
    def _powered(self) -> Iterator[None]:
        with self.changed:
            if self.faults.is_down:
                raise OSError(errno.EIO, "no power")
            yield

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._powered():
            self.faults.changes += 1
            if self.faults.changes_until_cut is not None:
                self.faults.changes_until_cut -= 1
                if self.faults.changes_until_cut <= 0:
                    self.cut(self.faults.survivors)
                    raise OSError(errno.EIO, "no power")
            yield

    def _take_bytes(self, count: int) -> None:
        left = self.faults.bytes_left
        if left is None:
            return
        if left < count or left == 0:
            self.faults.bytes_left = 0
            raise OSError(errno.ENOSPC, "no space")
        self.faults.bytes_left = left - count

    def _inside(self, path: str) -> str:
        """Return a path as the disk knows it: without the folder of the epoch."""
        _, epoch, *rest = path.split("/", 2)
        if epoch != str(self.faults.epoch):
            raise OSError(errno.ENOENT, path)
        return "/".join(rest)

    # Handles

    def _open(self, node: File | Directory) -> int:
        self._last_handle += 1
        self._handles[self._last_handle] = node
        return self._last_handle

    def _file(self, handle: int) -> File:
        node = self._handles.get(handle)
        if not isinstance(node, File):
            raise OSError(errno.EIO, "handle of before the power loss")
        return node

    def _file_at(self, path: str | None, handle: int | None) -> File:
        if path is None or handle:
            return self._file(handle or 0)
        return self.disk.find_file(self._inside(path))

    # Files

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        with self._change():
            self._take_bytes(0)
            file = self.disk.create(self._inside(path), mode)
            file.mtime_ns = time.time_ns()
            return self._open(file)

    def open(self, path: str, flags: int) -> int:
        with self._powered():
            file = self.disk.find_file(self._inside(path))
            if flags & os.O_TRUNC and file.live:
                file.write(Write(0, None))
            return self._open(file)

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        with self._powered():
            return bytes(memoryview(self._file(fh).live)[offset : offset + size])

    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        with self._change():
            file = self._file(fh)
            self._take_bytes(len(data))
            file.write(Write(offset, data))
            return len(data)

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        with self._change():
            file = self._file_at(path, fh)
            self._take_bytes(max(0, length - len(file.live)))
            file.write(Write(length, None))
            return 0

    def fallocate(self, path: str | None, mode: int, offset: int, size: int, fh: int) -> int:
        with self._change():
            file = self._file(fh)
            if mode & PUNCH_HOLE:
                data = bytes(max(0, min(size, len(file.live) - offset)))
                file.write(Write(offset, data))
            elif not mode & KEEP_SIZE and offset + size > len(file.live):
                self._take_bytes(offset + size - len(file.live))
                file.write(Write(offset + size, None))
            return 0

    def release(self, path: str | None, fh: int) -> int:
        with self.changed:
            self._handles.pop(fh, None)
        return 0

    # Syncs

    def fsync(self, path: str | None, datasync: int, fh: int) -> int:
        self._sync(fh)
        return 0

    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> int:
        self._sync(fh)
        return 0

    def _sync(self, handle: int) -> None:
        self._wait_while_slow()
        with self._change():
            node = self._handles.get(handle)
            if node is None:
                raise OSError(errno.EIO, "handle of before the power loss")
            self.faults.syncs += 1
            if self._is_failing_sync():
                if isinstance(node, File):
                    node.pending.clear()
                raise OSError(errno.EIO, "sync fails on command")
            if self.faults.ignore_syncs:
                return
            if isinstance(node, File):
                node.sync()
            else:
                self.disk.sync_directory(node)

    def _is_failing_sync(self) -> bool:
        left = self.faults.syncs_until_failure
        if left:
            self.faults.syncs_until_failure = left - 1
        return left == 0

    def _wait_while_slow(self) -> None:
        if self.faults.sync_delay_s:
            threading.Event().wait(self.faults.sync_delay_s)
        with self.changed:
            self.faults.held += 1
            self.changed.notify_all()
            # NOTE: bounded, since a process that waits here cannot even be killed.
            self.changed.wait_for(
                lambda: not self.faults.hold_syncs or self.faults.is_down, HOLD_MAX_S
            )
            self.faults.held -= 1

    # Names

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, Any]:
        with self._powered():
            node = self._handles.get(fh) if fh else None
            if node is None:
                if path is None:
                    raise OSError(errno.EIO, "handle of before the power loss")
                node = self._top if path == "/" else self.disk.find(self._inside(path))
            return dict(self.disk.attributes(node))

    def _directory(self, path: str) -> Directory:
        """Return a directory; the mount's own shows the epoch."""
        if path != "/":
            return self.disk.find_directory(self._inside(path))
        self._top.live = {str(self.faults.epoch): self.disk.root}
        return self._top

    def opendir(self, path: str) -> int:
        with self._powered():
            return self._open(self._directory(path))

    def readdir(self, path: str | None, fh: int) -> list[Any]:
        with self._powered():
            node = self._handles.get(fh)
            if not isinstance(node, Directory):
                raise OSError(errno.EIO, "handle of before the power loss")
            return [".", "..", *self._entries(node)]

    def _entries(self, directory: Directory) -> Iterator[tuple[str, dict[str, int], int]]:
        """Give name, mode and inode: glibc passes over names whose inode is 0."""
        for name, node in directory.live.items():
            if not name.startswith(HIDDEN):
                yield name, {"st_mode": node.mode, "st_ino": node.ino}, 0

    def releasedir(self, path: str | None, fh: int) -> int:
        return self.release(path, fh)

    def mkdir(self, path: str, mode: int) -> int:
        with self._change():
            self._take_bytes(0)
            self.disk.make_directory(self._inside(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        with self._change():
            self.disk.remove_directory(self._inside(path))
        return 0

    def unlink(self, path: str) -> int:
        with self._change():
            self.disk.unlink(self._inside(path))
        return 0

    def rename(self, old: str, new: str) -> int:
        with self._change():
            self.disk.rename(self._inside(old), self._inside(new))
        return 0

    def link(self, target: str, source: str) -> int:
        with self._change():
            self.disk.link(self._inside(source), self._inside(target))
        return 0

    def chmod(self, path: str | None, mode: int) -> int:
        return 0

    def chown(self, path: str | None, uid: int, gid: int) -> int:
        return 0

    def utimens(self, path: str | None, times: Any = None) -> int:
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        with self._powered():
            left = self.faults.bytes_left
            free = CAPACITY_BYTES - self.disk.used_bytes() if left is None else left
            blocks = {"f_bavail": free // 4096, "f_bfree": free // 4096}
            return {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": CAPACITY_BYTES // 4096, **blocks}


class LossyFuse(mfusepy.FUSE):
    """The binding; it refuses rename flags, which `mfusepy` would drop in silence.

    It also hands the handle on of a file that is truncated while it is open.
    """

    def _wrapper(self, func: Any, *args: Any, **kwargs: Any) -> int:
        """Answer a call, or refuse it."""
        call = func.__name__.removesuffix("_fuse_3").removeprefix("f_")
        path = args[0] if args and isinstance(args[0], bytes) else None
        refusal = self.operations.refusal_of(call, path)
        return -refusal if refusal else int(super()._wrapper(func, *args, **kwargs))

    def truncate_fuse_3(self, path: bytes | None, length: int, info: Any) -> int:
        return int(self.ftruncate(path, length, info))

    def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
        if flags:
            return -errno.EINVAL
        return int(super().rename_fuse_3(old, new, flags))
