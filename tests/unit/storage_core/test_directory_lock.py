"""The lock: one holder, whatever is deleted inside the directory, and it says who."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from storage_core import CorruptionError, ShardLockedError, UnavailableError
from storage_core.catalog.stream_file import locked
from storage_core.ground.directory_lock import OWNER_FILE, DirectoryLock, describe_owner


def acquire(path) -> DirectoryLock:
    return DirectoryLock.acquire(path, started_at_ms=5, stream="clicks", shard=3)


@pytest.fixture
def replaced_before_lock(root, monkeypatch):
    """A directory that is moved away, and made anew, each so many times just before a lock."""
    path, flock = root / "shard", fcntl.flock
    path.mkdir()
    times = [0]

    def replace_and_lock(descriptor: int, operation: int) -> None:
        if times[0] and operation & fcntl.LOCK_EX:
            times[0] -= 1
            path.rename(root / f"moved-{times[0]}")
            path.mkdir()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", replace_and_lock)
    return path, times


def is_locked(path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_lock_is_on_what_the_path_names_though_that_was_replaced_meanwhile(replaced_before_lock):
    path, times = replaced_before_lock
    times[0] = 2
    lock = acquire(path)
    assert is_locked(path)
    lock.release()


def test_lock_of_a_stream_is_on_what_its_path_names(replaced_before_lock):
    path, times = replaced_before_lock
    times[0] = 2
    with locked(path):
        assert is_locked(path)
    assert not is_locked(path)


def test_directory_that_is_replaced_without_end_is_told_and_costs_no_descriptor(
    replaced_before_lock,
):
    path, times = replaced_before_lock
    before = len(list(Path("/proc/self/fd").iterdir()))
    times[0] = 1000
    with pytest.raises(UnavailableError, match=r"replaced again and again.*shard"):
        acquire(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_directory_that_is_moved_away_before_the_lock_is_missing(root, monkeypatch):
    (root / "shard").mkdir()
    flock = fcntl.flock

    def move_and_lock(descriptor: int, operation: int) -> None:
        (root / "shard").rename(root / "moved")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", move_and_lock)
    with pytest.raises(CorruptionError, match="missing"):
        acquire(root / "shard")


def test_second_holder_is_refused_and_told_who_holds_it(root):
    lock = acquire(root)
    with pytest.raises(ShardLockedError, match=rf"process {os.getpid()} on .*'clicks', shard 3"):
        acquire(root)
    lock.release()


def test_lock_holds_though_everything_inside_is_deleted(root):
    lock = acquire(root)
    for path in root.iterdir():
        path.unlink()
    with pytest.raises(ShardLockedError, match="an unknown process"):
        acquire(root)
    lock.release()


def test_released_lock_can_be_had(root):
    for _ in range(3):
        lock = acquire(root)
        lock.release()
        lock.release()


def test_released_lock_can_be_had_though_a_forked_child_keeps_its_descriptor(root):
    lock = acquire(root)
    assert lock._descriptor is not None
    of_the_child = os.dup(lock._descriptor)
    lock.release()
    acquire(root).release()
    os.close(of_the_child)


LOCKED_BY_THE_PARENT = """
import os, sys
from pathlib import Path
from storage_core import ShardLockedError
from storage_core.ground.directory_lock import DirectoryLock

how = {"started_at_ms": 5, "stream": "clicks", "shard": 3}
lock = DirectoryLock.acquire(Path(sys.argv[1]), **how)
child = os.fork()
if not child:
    lock.release()
    os._exit(0)
os.waitpid(child, 0)
try:
    DirectoryLock.acquire(Path(sys.argv[1]), **how)
except ShardLockedError as error:
    print(f"process {os.getpid()} " in str(error))
"""


def test_forked_child_that_releases_leaves_the_lock_and_its_owner(root):
    command = [sys.executable, "-c", LOCKED_BY_THE_PARENT, os.fspath(root)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "True"


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
