"""Goal: the file system of the power tests loses what a power loss may lose, and nothing else.

Method: plain files on a mount of their own; cut, look again.
"""

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from tests.faults.lossy.mount import LossyMount
from tests.waiting import WAIT_MAX_S

pytestmark = pytest.mark.fuse


def write(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Append bytes to a file, durable or not."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, data)
        if sync:
            os.fdatasync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Make the names of a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def names(path: Path) -> list[str]:
    """List a directory."""
    return sorted(entry.name for entry in path.iterdir())


def write_durably(path: Path, data: bytes) -> None:
    """Write a file with its name."""
    write(path, data, sync=True)
    sync_directory(path.parent)


def test_synced_bytes_stay_and_unsynced_ones_go(disk: LossyMount) -> None:
    write_durably(disk.path / "log", b"kept")
    write(disk.path / "log", b" and lost")
    assert (disk.path / "log").read_bytes() == b"kept and lost"
    disk.cut_and_restore()
    assert (disk.path / "log").read_bytes() == b"kept"


def test_synced_file_without_synced_directory_is_gone(disk: LossyMount) -> None:
    write(disk.path / "nameless", b"bytes", sync=True)
    disk.cut_and_restore()
    assert names(disk.path) == []


def test_file_with_synced_name_only_is_empty(disk: LossyMount) -> None:
    write(disk.path / "empty", b"bytes")
    sync_directory(disk.path)
    disk.cut_and_restore()
    assert (disk.path / "empty").read_bytes() == b""


def test_rename_without_directory_sync_comes_back(disk: LossyMount) -> None:
    write_durably(disk.path / "current", b"old")
    write(disk.path / "temporary", b"new", sync=True)
    (disk.path / "temporary").rename(disk.path / "current")
    assert (disk.path / "current").read_bytes() == b"new"
    disk.cut_and_restore()
    assert (disk.path / "current").read_bytes() == b"old"


def test_rename_with_directory_sync_stays(disk: LossyMount) -> None:
    write_durably(disk.path / "current", b"old")
    write(disk.path / "temporary", b"new", sync=True)
    (disk.path / "temporary").rename(disk.path / "current")
    sync_directory(disk.path)
    disk.cut_and_restore()
    assert (disk.path / "current").read_bytes() == b"new"
    assert names(disk.path) == ["current"]


def test_unlink_without_directory_sync_comes_back(disk: LossyMount) -> None:
    write_durably(disk.path / "log", b"kept")
    (disk.path / "log").unlink()
    disk.cut_and_restore()
    assert (disk.path / "log").read_bytes() == b"kept"


def test_rename_between_directories_does_not_come_apart(disk: LossyMount) -> None:
    (disk.path / "from").mkdir()
    (disk.path / "to").mkdir()
    sync_directory(disk.path)
    write(disk.path / "from/file", b"moved", sync=True)
    (disk.path / "from/file").rename(disk.path / "to/file")
    sync_directory(disk.path / "to")
    sync_directory(disk.path / "from")
    disk.cut_and_restore()
    assert names(disk.path / "from") == []
    assert (disk.path / "to/file").read_bytes() == b"moved"


def test_link_is_refused_when_the_name_is_taken(disk: LossyMount) -> None:
    write_durably(disk.path / "a", b"a")
    os.link(disk.path / "a", disk.path / "b")
    with pytest.raises(FileExistsError):
        os.link(disk.path / "a", disk.path / "b")
    assert (disk.path / "b").read_bytes() == b"a"


def test_truncation_without_sync_comes_back(disk: LossyMount) -> None:
    write_durably(disk.path / "log", b"0123456789")
    os.truncate(disk.path / "log", 3)
    assert (disk.path / "log").read_bytes() == b"012"
    disk.cut_and_restore()
    assert (disk.path / "log").read_bytes() == b"0123456789"


def test_open_file_is_truncated(disk: LossyMount) -> None:
    write_durably(disk.path / "log", b"0123456789")
    with (disk.path / "log").open("r+b") as file:
        file.truncate(3)
    assert (disk.path / "log").read_bytes() == b"012"


def test_some_unsynced_pages_survive_a_cut_with_a_seed(disk: LossyMount) -> None:
    write_durably(disk.path / "log", b"")
    write(disk.path / "log", b"x" * 64 * 4096)
    disk.cut_and_restore(survivors=1)
    assert 0 < (disk.path / "log").read_bytes().count(b"x") < 64 * 4096


def test_everything_survives_if_told_so(disk: LossyMount) -> None:
    write(disk.path / "log", b"unsynced")
    disk.cut_and_restore(survivors="everything")
    assert (disk.path / "log").read_bytes() == b"unsynced"


def test_old_handles_are_dead_after_the_cut(disk: LossyMount) -> None:
    handle = os.open(disk.path / "log", os.O_RDWR | os.O_CREAT)
    disk.cut_and_restore()
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        os.write(handle, b"late")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        os.fsync(handle)
    os.close(handle)


def test_power_goes_instead_of_the_nth_change(disk: LossyMount) -> None:
    write_durably(disk.path / "log", b"")
    disk.order(cut_after=3, survivors=None)
    write(disk.path / "log", b"a", sync=True)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write(disk.path / "log", b"b")
    disk.restore_power()
    assert (disk.path / "log").read_bytes() == b"a"


def test_ignored_syncs_keep_nothing(disk: LossyMount) -> None:
    disk.order(ignore_syncs=True)
    write_durably(disk.path / "log", b"lost")
    disk.cut_and_restore()
    assert names(disk.path) == []


def test_syncs_fail_from_the_nth_on_and_lose_their_pages(disk: LossyMount) -> None:
    write_durably(disk.path / "log", b"kept")
    disk.order(syncs_until_failure=0)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write(disk.path / "log", b" lost", sync=True)
    disk.order(syncs_until_failure=None)
    write(disk.path / "log", b"", sync=True)
    disk.cut_and_restore()
    assert (disk.path / "log").read_bytes() == b"kept"


def test_disk_is_full_after_so_many_bytes(disk: LossyMount) -> None:
    disk.order(bytes_left=8)
    write(disk.path / "log", b"12345678")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        write(disk.path / "log", b"9")
    disk.order(bytes_left=None)
    write(disk.path / "log", b"9")
    assert (disk.path / "log").read_bytes() == b"123456789"


def test_held_sync_returns_when_it_is_let_go(disk: LossyMount) -> None:
    disk.order(hold_syncs=True)
    syncing = threading.Thread(target=write, args=(disk.path / "log", b"x"), kwargs={"sync": True})
    syncing.start()
    assert disk.wait_until("held")
    assert syncing.is_alive()
    disk.order(hold_syncs=False)
    syncing.join(WAIT_MAX_S)
    assert not syncing.is_alive()


def test_locks_of_a_directory_exclude_each_other(disk: LossyMount) -> None:
    first = os.open(disk.path, os.O_RDONLY)
    second = os.open(disk.path, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(BlockingIOError):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(first)
    fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(second)


def test_unlinked_file_is_read_through_its_open_handle(disk: LossyMount) -> None:
    write_durably(disk.path / "sst", b"still here")
    handle = os.open(disk.path / "sst", os.O_RDONLY)
    (disk.path / "sst").unlink()
    sync_directory(disk.path)
    assert names(disk.path) == []
    assert os.pread(handle, 100, 0) == b"still here"
    os.close(handle)
