"""A shard has one writer, whatever is deleted inside its directory, and it says who."""

import fcntl
import os
import shutil
import subprocess
import sys

import pytest

from storage_core import CorruptionError, DirectoryLock, ShardLockedError
from storage_core.engine.writer_lock import (
    OWNER_FILE,
    ShardOwner,
    WriterLock,
    current_owner,
    describe_owner,
)
from storage_core.testing import ManualClock


def acquire(path) -> WriterLock:
    return WriterLock.acquire(path, ManualClock(), stream="clicks", shard=3)


def test_directory_that_is_moved_away_before_the_lock_is_missing(root, monkeypatch):
    (root / "shard").mkdir()
    flock = fcntl.flock

    def move_and_lock(descriptor: int, operation: int) -> None:
        (root / "shard").rename(root / "moved")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", move_and_lock)
    with pytest.raises(CorruptionError, match="missing"):
        acquire(root / "shard")


def test_lock_that_nobody_remembers_is_held(root):
    acquire(root)
    with pytest.raises(ShardLockedError, match="another writer"):
        acquire(root)


LOCKED_BY_THE_PARENT = """
import os, sys
from pathlib import Path
from storage_core import ShardLockedError
from storage_core.engine.writer_lock import WriterLock
from storage_core.testing import ManualClock

how = {"clock": ManualClock(), "stream": "clicks", "shard": 3}
lock = WriterLock.acquire(Path(sys.argv[1]), **how)
child = os.fork()
if not child:
    lock.release()
    os._exit(0)
os.waitpid(child, 0)
try:
    WriterLock.acquire(Path(sys.argv[1]), **how)
except ShardLockedError as error:
    print(f"process {os.getpid()} " in str(error))
"""


def test_forked_child_that_releases_leaves_the_lock_and_its_owner(root):
    command = [sys.executable, "-c", LOCKED_BY_THE_PARENT, os.fspath(root)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True"


def test_failed_attempt_leaves_the_owner_in_place(root):
    lock = acquire(root)
    with pytest.raises(ShardLockedError):
        acquire(root)
    assert str(os.getpid()) in describe_owner(root)
    lock.release()
    assert not (root / OWNER_FILE).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"pid": 1}'])
def test_unreadable_owner_is_no_obstacle(root, text):
    (root / OWNER_FILE).write_text(text)
    assert "unknown process" in describe_owner(root)
    acquire(root).release()


def test_missing_directory_is_damage(root):
    with pytest.raises(CorruptionError, match=r"missing.*shard 3.*gone"):
        acquire(root / "gone")


def test_file_in_place_of_the_directory_is_damage(root):
    (root / "file").touch()
    with pytest.raises(CorruptionError, match="missing"):
        acquire(root / "file")


def test_release_of_a_directory_that_is_gone_is_quiet(root):
    (root / "shard").mkdir()
    lock = acquire(root / "shard")
    shutil.rmtree(root / "shard")
    lock.release()


KILLED = '{"pid": 7, "host": "there", "started_at_ms": 1}'


def look_at(path) -> DirectoryLock:
    """Be in the midst of finding out whether somebody holds a shard."""
    looking = DirectoryLock.if_free(path, is_shared=True)
    assert looking is not None
    return looking


def held_by_another(path) -> DirectoryLock:
    lock = DirectoryLock.if_free(path)
    assert lock is not None
    return lock


class ClockOfLooker(ManualClock):
    """A clock by which another has looked long enough while somebody sleeps."""

    def __init__(self, looking: DirectoryLock) -> None:
        super().__init__()
        self._looking = looking

    def sleep(self, seconds: float) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        super().sleep(seconds)
        self._looking.release()


def test_owner_is_told_while_it_holds_the_lock_and_no_longer(root):
    clock = ManualClock()
    lock = WriterLock.acquire(root, clock, stream="clicks", shard=3, purpose="repair")
    owner = current_owner(root)
    assert owner is not None
    assert (owner.pid, owner.since_ms) == (os.getpid(), clock.now_ns() // 10**6)
    assert str(owner).endswith(", for repair")
    lock.release()
    assert current_owner(root) is None


def test_killed_owner_is_nobody_to_two_who_look_at_once(root):
    (root / OWNER_FILE).write_text(KILLED)
    with look_at(root):
        assert current_owner(root) is None
    with held_by_another(root):
        assert current_owner(root) == ShardOwner(7, "there", 1)


def test_writer_is_not_refused_for_somebody_who_only_looks(root):
    (root / OWNER_FILE).write_text(KILLED)
    clock = ClockOfLooker(look_at(root))
    WriterLock.acquire(root, clock, stream="clicks", shard=3).release()


def test_writer_is_refused_at_once_where_another_writes(root):
    clock = ManualClock()
    with held_by_another(root), pytest.raises(ShardLockedError):
        WriterLock.acquire(root, clock, stream="clicks", shard=3)
    assert clock.elapsed_s == 0
