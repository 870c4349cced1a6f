"""A disk in memory that knows what a power loss would leave of it.

Every file has two states: `live`, what a process sees, and `durable`, what the medium holds.
Between the two lie the pending writes of the file, in order, and the pending changes of names,
in one journal.

* fsync or fdatasync of a file makes its bytes and its length durable, and **nothing else**: not
  its name. That is what POSIX promises. ext4 would give the name of a new file too; a program
  that needs that is wrong elsewhere. * fsync of a directory makes every change of names in it
  durable: create, mkdir, link, rename, unlink, rmdir. A rename between two directories is one
  change and cannot come apart; what it depends on comes with it. * A power cut drops everything
  else (`survivors=None`), or keeps what the medium happened to have reached
  (`survivors=Random`): any subset of the unsynced 4 KiB pages, and the oldest few changes of
  names. * After a failed fsync the pending writes count as clean and are never written, as Linux
  does it: a later fsync that succeeds does not bring them back.

Not thread-safe: `file_system` holds one lock around every call.
"""

import errno
import os
import stat
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import NamedTuple

PAGE = 4096
HIDDEN = ".fuse_hidden"
"""How libfuse names a file that was unlinked while open; only its open handles need it."""


class Write(NamedTuple):
    """Bytes put at an offset, or, with `data` None, the file cut or stretched to `offset`."""

    offset: int
    data: bytes | None


def apply_write(content: bytearray, write: Write) -> None:
    """Do one write or truncation to a file's bytes."""
    offset, data = write
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


@dataclass(eq=False, slots=True)
class File:
    """Bytes as seen, bytes as kept, and what lies between."""

    ino: int
    mode: int
    live: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)
    links: int = 1
    mtime_ns: int = 0

    def write(self, write: Write) -> None:
        apply_write(self.live, write)
        self.pending.append(write)

    def sync(self) -> None:
        for write in self.pending:
            apply_write(self.durable, write)
        self.pending.clear()

    def lose(self, survivors: Random | None) -> None:
        """Keep the durable bytes, and of the pending pages those that chance picks."""
        for write in self.pending if survivors is not None else ():
            for piece in _pages(write):
                if survivors is not None and survivors.random() < 0.5:
                    apply_write(self.durable, piece)
        self.pending.clear()
        self.live = bytearray(self.durable)


def _pages(write: Write) -> list[Write]:
    if write.data is None:
        return [write]
    first = PAGE - write.offset % PAGE
    cuts = [0, *range(first, len(write.data), PAGE), len(write.data)]
    return [Write(write.offset + start, write.data[start:end]) for start, end in pairwise(cuts)]


@dataclass(eq=False, slots=True)
class Directory:
    """Names as seen and names as kept."""

    ino: int
    mode: int
    live: dict[str, "File | Directory"] = field(default_factory=dict)
    durable: dict[str, "File | Directory"] = field(default_factory=dict)
    mtime_ns: int = 0


class NameChange(NamedTuple):
    """One name of one directory set to a node, or taken away."""

    directory: Directory
    name: str
    node: File | Directory | None


class LossyDisk:
    """The tree of one file system, with its journal of name changes that are not durable yet."""

    def __init__(self, first_ino: int = 2) -> None:
        self.next_ino = first_ino
        self.root = self._new_directory(0o755)
        self._journal: list[tuple[NameChange, ...]] = []

    def _take_ino(self) -> int:
        self.next_ino += 1
        return self.next_ino - 1

    def _new_directory(self, mode: int) -> Directory:
        return Directory(self._take_ino(), stat.S_IFDIR | (mode & 0o7777))

    def find(self, path: str) -> File | Directory:
        """Return the node at a path, or raise ENOENT."""
        node: File | Directory | None = self.root
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(node, Directory):
                raise OSError(errno.ENOTDIR, path)
            node = node.live.get(name)
            if node is None:
                raise OSError(errno.ENOENT, path)
        assert node is not None
        return node

    def find_file(self, path: str) -> File:
        """Return the file at a path; a directory there raises EISDIR."""
        node = self.find(path)
        if isinstance(node, Directory):
            raise OSError(errno.EISDIR, path)
        return node

    def find_directory(self, path: str) -> Directory:
        """Return the directory at a path; a file there raises ENOTDIR."""
        node = self.find(path)
        if not isinstance(node, Directory):
            raise OSError(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self.find_directory(parent), name

    def _change(self, *changes: NameChange) -> None:
        for directory, name, node in changes:
            if node is None:
                directory.live.pop(name, None)
            else:
                directory.live[name] = node
        visible = tuple(change for change in changes if not change.name.startswith(HIDDEN))
        if visible:
            self._journal.append(visible)

    def create(self, path: str, mode: int) -> File:
        """Make an empty file."""
        directory, name = self._parent(path)
        if name in directory.live:
            raise OSError(errno.EEXIST, path)
        file = File(self._take_ino(), stat.S_IFREG | (mode & 0o7777))
        self._change(NameChange(directory, name, file))
        return file

    def make_directory(self, path: str, mode: int) -> None:
        """Make an empty directory."""
        directory, name = self._parent(path)
        if name in directory.live:
            raise OSError(errno.EEXIST, path)
        self._change(NameChange(directory, name, self._new_directory(mode)))

    def unlink(self, path: str) -> None:
        """Take a file's name away."""
        file = self.find_file(path)
        file.links -= 1
        self._change(NameChange(*self._parent(path), None))

    def remove_directory(self, path: str) -> None:
        """Take an empty directory away."""
        if any(not name.startswith(HIDDEN) for name in self.find_directory(path).live):
            raise OSError(errno.ENOTEMPTY, path)
        self._change(NameChange(*self._parent(path), None))

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        file = self.find_file(source)
        directory, name = self._parent(target)
        if name in directory.live:
            raise OSError(errno.EEXIST, target)
        file.links += 1
        self._change(NameChange(directory, name, file))

    def rename(self, source: str, target: str) -> None:
        """Move a name over another; both happen or neither."""
        node = self.find(source)
        directory, name = self._parent(target)
        replaced = directory.live.get(name)
        if replaced is node:
            return
        if isinstance(replaced, Directory) and replaced.live:
            raise OSError(errno.ENOTEMPTY, target)
        if isinstance(replaced, File):
            replaced.links -= 1
        gone = NameChange(*self._parent(source), None)
        self._change(gone, NameChange(directory, name, node))

    def sync_directory(self, directory: Directory) -> None:
        """Make the changes of names in a directory durable, with all that they rest on."""
        reached = {directory.ino}
        chosen: list[int] = []
        for index in range(len(self._journal) - 1, -1, -1):
            touched = {change.directory.ino for change in self._journal[index]}
            if touched & reached:
                reached |= touched
                chosen.append(index)
        for index in reversed(chosen):
            self._keep(self._journal[index])
        for index in chosen:
            del self._journal[index]

    def _keep(self, changes: tuple[NameChange, ...]) -> None:
        for directory, name, node in changes:
            if node is None:
                directory.durable.pop(name, None)
            else:
                directory.durable[name] = node

    def sync_all(self) -> None:
        """Make everything durable, as if the machine had had the time."""
        for changes in self._journal:
            self._keep(changes)
        self._journal.clear()
        _sync_files(self.root)

    def lose_power(self, survivors: Random | None) -> None:
        """Leave what is durable, and of the rest what chance lets survive (nothing without it)."""
        lucky = survivors.randint(0, len(self._journal)) if survivors is not None else 0
        for changes in self._journal[:lucky]:
            self._keep(changes)
        self._journal.clear()
        self._lose_in(self.root, survivors, set())

    def _lose_in(self, node: Directory, survivors: Random | None, done: set[int]) -> None:
        node.live = dict(node.durable)
        for child in node.live.values():
            if isinstance(child, Directory):
                self._lose_in(child, survivors, done)
            elif child.ino not in done:
                done.add(child.ino)
                child.lose(survivors)

    def used_bytes(self) -> int:
        """Return the bytes of all visible files."""
        return _used(self.root)

    def attributes(self, node: File | Directory) -> dict[str, int]:
        """Return what stat(2) reports of a node."""
        is_file = isinstance(node, File)
        return {
            "st_ino": node.ino,
            "st_mode": node.mode,
            "st_nlink": max(node.links, 1) if isinstance(node, File) else 2,
            "st_size": len(node.live) if is_file else PAGE,
            "st_blocks": (len(node.live) + 511) // 512 if is_file else 8,
            "st_blksize": PAGE,
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
            "st_atime": node.mtime_ns,
            "st_mtime": node.mtime_ns,
            "st_ctime": node.mtime_ns,
        }


def _sync_files(directory: Directory) -> None:
    for child in directory.live.values():
        if isinstance(child, Directory):
            _sync_files(child)
        else:
            child.sync()


def _used(directory: Directory) -> int:
    return sum(
        _used(child) if isinstance(child, Directory) else len(child.live)
        for child in directory.live.values()
    )
